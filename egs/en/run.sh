#!/usr/bin/env bash
# The built-in English model: text + timing + case, trained on podcasts, AMI and Earnings-21; then it learns to hear, on
# the acted dialogue that `egs/games/run.sh --stage 0` prepares.
#
# e.g.: ./run.sh --corpora /data/punct --stage 0
#
# Results: docs/results.md. One thread trains about 650 pieces a second on a CPU of 2021: 90 minutes in all.

# Begin configuration section.
corpora=corpora # holds podcasts/, ami/ and earnings21/ (docs/results.md says what is in them)
stage=0
podcast_words=1800000 # whole episodes, drawn by seed 1
exp=exp/en
games=../games/data # what it learns to hear from; without it the model stays deaf
# End configuration section.

set -euo pipefail
cd "$(dirname "$0")"
while [ $# -gt 0 ]; do
  case "$1" in
    --corpora) corpora=$2 ;;
    --stage) stage=$2 ;;
    --podcast-words) podcast_words=$2 ;;
    --exp) exp=$2 ;;
    --games) games=$2 ;;
    *) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
  esac
  shift 2
done
for f in podcasts/train.turns.tsv.gz ami/train.words.tsv.gz earnings21/train/ctm.gz; do
  [ -f "$corpora/$f" ] || { echo "$0: expected file $corpora/$f to exist; give --corpora" >&2 && exit 1; }
done

if [ "$stage" -le 0 ]; then
  for set in train dev; do
    kaldi-punct prepare --from ami "$corpora/ami/$set.words.tsv.gz" data/ami_$set
    kaldi-punct prepare --from earnings21 "$corpora/earnings21/$set" data/earnings21_$set
  done
  kaldi-punct prepare --from podcasts "$corpora/podcasts/dev.turns.tsv.gz" data/podcasts_dev
  kaldi-punct prepare --from podcasts --max-words "$podcast_words" "$corpora/podcasts/train.turns.tsv.gz" \
    data/podcasts_train
fi

if [ "$stage" -le 1 ]; then
  kaldi-punct train --config conf/en.yaml data/podcasts_train,data/ami_train,data/earnings21_train \
    data/earnings21_dev,data/ami_dev,data/podcasts_dev "$exp"
fi

if [ "$stage" -le 2 ]; then
  local/score_sets.py "$exp/best" data/earnings21_dev data/ami_dev data/podcasts_dev
fi

if [ "$stage" -le 3 ]; then
  local/export_model.py "$exp/best" "$exp/export" --name en --version 1 --margin-words 32
  local/score_sets.py "$exp/export" data/earnings21_dev data/ami_dev data/podcasts_dev
fi

if [ "$stage" -le 4 ]; then
  [ -d "$games/ref/a" ] || { echo "$0: no $games/ref/a (egs/games/run.sh --stage 0): the model stays deaf" && exit 0; }
  kaldi-punct train --config conf/ears.yaml --set "train.init=$exp/export" \
    "$games/ref/a,$games/ref/b,$games/asr/a,$games/asr/b" "$games/ref/dev" "${exp}_ears"
  local/export_model.py "${exp}_ears/best" "${exp}_ears/export" --name en --version 2 --margin-words 32
  for kind in ref asr; do
    ../games/local/score_slots.py "${exp}_ears/export" "$games/$kind/dev"
  done
fi
