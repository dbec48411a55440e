#!/usr/bin/env bash
# A model that hears: four models, trained separately on fold A and scored on fold B, on reference words and on ASR words.
#
# e.g.: ./run.sh --corpus /data/games --stage 0
#
# Results: docs/results.md.

# Begin configuration section.
corpus=corpora/games # the acted dialogue with its decode directories
stage=0
kinds="ref asr"
models="text timing sound all"
# End configuration section.

set -euo pipefail
cd "$(dirname "$0")"
while [ $# -gt 0 ]; do
  case "$1" in
    --corpus) corpus=$2 ;;
    --stage) stage=$2 ;;
    --kinds) kinds=$2 ;;
    --models) models=$2 ;;
    *) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
  esac
  shift 2
done
[ -d "$corpus/decode" ] || { echo "$0: expected directory $corpus/decode to exist; give --corpus" >&2 && exit 1; }

if [ "$stage" -le 0 ]; then
  local/prepare_data.py "$corpus" data
fi

if [ "$stage" -le 1 ]; then
  for kind in $kinds; do
    for model in $models; do
      kaldi-punct train --config "conf/$model.yaml" "data/$kind/train_a" "data/$kind/dev" "exp/${kind}_$model"
    done
  done
fi

if [ "$stage" -le 2 ]; then
  for kind in $kinds; do
    for model in $models; do
      echo "== $kind words, $model"
      local/score_slots.py "exp/${kind}_$model/best" "data/$kind/score_b"
    done
  done
fi
