#!/usr/bin/env bash
# A model that hears: four models, each trained on one fold and scored on the other, on reference words and on ASR words.
#
# e.g.: ./run.sh --corpus /data/games --stage 0
#
# run_table.sh makes the other rows of conf/, and the wav2vec that some of them hear through.
#
# Results: docs/results.md.

# Begin configuration section.
corpus=corpora/games # the acted dialogue with its decode directories
stage=0
kinds="ref asr"
folds="a b" # to train on; the other one is scored
models="text timing sound all"
# End configuration section.

set -euo pipefail
cd "$(dirname "$0")"
while [ $# -gt 0 ]; do
  case "$1" in
    --corpus) corpus=$2 ;;
    --stage) stage=$2 ;;
    --kinds) kinds=$2 ;;
    --folds) folds=$2 ;;
    --models) models=$2 ;;
    *) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
  esac
  shift 2
done
[ -d "$corpus/decode" ] || { echo "$0: expected directory $corpus/decode to exist; give --corpus" >&2 && exit 1; }

if [ "$stage" -le 0 ]; then
  kaldi-punct prepare --from games "$corpus" data
  local/write_nbest.sh "$corpus" data
fi

if [ "$stage" -le 1 ]; then
  for kind in $kinds; do
    for fold in $folds; do
      for model in $models; do
        kaldi-punct train --config "conf/$model.yaml" "data/$kind/$fold" "data/$kind/dev" "exp/${kind}_${fold}_$model"
      done
    done
  done
fi

if [ "$stage" -le 2 ]; then
  for kind in $kinds; do
    for fold in $folds; do
      other=$([ "$fold" = a ] && echo b || echo a)
      for model in $models; do
        echo "== $kind words, $model, trained on fold $fold, scored on fold $other"
        local/score_slots.py "exp/${kind}_${fold}_$model/best" "data/$kind/$other"
      done
    done
  done
fi
