#!/usr/bin/env bash
# Fisher English: the paper's setting, from the LDC's discs to F1 on the test calls.
#
# Stage 0 needs the discs, stage 1 a Kaldi recipe with a trained nnet3 or chain model; nobody who wrote this had either
# (docs/data.md). Where there is a data/{train,dev,test} already, begin with stage 2. Audio is read through sph2pipe.
#
# e.g.: ./run.sh --discs "/ldc/LDC2004S13 /ldc/LDC2005S13 /ldc/LDC2004T19 /ldc/LDC2005T19" --s5 ~/kaldi/egs/fisher_swbd/s5

# Begin configuration section.
discs=                 # folders of LDC2004S13, LDC2005S13 (speech), LDC2004T19, LDC2005T19 (transcripts)
s5=                    # the Kaldi recipe that aligns, with data/lang and exp/chain below it
lang=data/lang         # in it
mdl=exp/chain/tdnn_lstm_1a_sp # in it: final.mdl, tree
ivectors=exp/nnet3/extractor # in it; "" for a model without
cmd=run.pl
nj=30
stage=0
stop_stage=4
min_words=6            # of an utterance (the paper)
dev_share=0.1          # of the calls
test_share=0.1
seed=1
hours="1 10 100"       # parts of the training set, each within the next
# conf/*.yaml, on all of it; those of wav2vec where exp/wav2vec_large is a model directory of it
models="blstm bert pitch_fa melspec_fa wav2vec_fa pitch_attention melspec_attention wav2vec_attention melspec_onset"
streaming="streaming_lstm streaming_bert streaming_melspec streaming_wav2vec"
small="bert melspec_fa" # on the parts
lists="nbest_1 nbest_3 nbest_5 nbest_10" # on all of it and its N-best lists, where data/train/nbest has some
# End configuration section.

set -euo pipefail
cd "$(dirname "$0")"
while [ $# -gt 0 ]; do
  case "$1" in
    --discs) discs=$2 ;;
    --s5) s5=$2 ;;
    --lang) lang=$2 ;;
    --mdl) mdl=$2 ;;
    --ivectors) ivectors=$2 ;;
    --cmd) cmd=$2 ;;
    --nj) nj=$2 ;;
    --stage) stage=$2 ;;
    --stop-stage) stop_stage=$2 ;;
    --min-words) min_words=$2 ;;
    --dev-share) dev_share=$2 ;;
    --test-share) test_share=$2 ;;
    --seed) seed=$2 ;;
    --hours) hours=$2 ;;
    --models) models=$2 ;;
    --streaming) streaming=$2 ;;
    --small) small=$2 ;;
    --lists) lists=$2 ;;
    *) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
  esac
  shift 2
done
runs() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }

if runs 0; then # the discs
  [ -n "$discs" ] || { echo "$0: stage 0 needs the LDC's discs; name their folders by --discs" >&2 && exit 1; }
  read -ra folders <<<"$discs"
  kaldi-punct prepare --from fisher --resume --min-words "$min_words" --dev-share "$dev_share" \
    --test-share "$test_share" --seed "$seed" "${folders[@]}" data
fi

for set in train dev test; do
  [ -f data/$set/text_punct ] || { echo "$0: expected file data/$set/text_punct to exist; run stage 0" >&2 && exit 1; }
done

if runs 1; then # times of the words, by forced alignment
  [ -n "$s5" ] || { echo "$0: stage 1 needs a Kaldi recipe with a trained model; name its folder by --s5" >&2 && exit 1; }
  for set in train dev test; do
    [ -f data/$set/ctm ] || local/align_words.sh --cmd "$cmd" --nj "$nj" --ivectors "$ivectors" data/$set "$s5" "$lang" "$mdl"
  done
fi

if runs 2; then # parts of the training set, and what all sets hold
  for h in $hours; do
    kaldi-punct prepare --resume --hours "$h" --seed "$seed" data/train "data/train_${h}h" >/dev/null
  done
  kaldi-punct prepare --stats data/train data/dev data/test
fi

if runs 3; then # a run that was stopped goes on
  for model in $models $streaming; do
    speech=$(sed -n 's/.*[ {]speech: \([^,}]*\).*/\1/p' "conf/$model.yaml")
    [ -z "$speech" ] || [ -d "$speech" ] || { echo "$0: no $speech, so no $model" && continue; }
    kaldi-punct train --config "conf/$model.yaml" data/train data/dev "exp/$model"
  done
  for model in $small; do
    for h in $hours; do
      kaldi-punct train --config "conf/$model.yaml" "data/train_${h}h" data/dev "exp/${model}_${h}h"
    done
  done
  # Lists come from a decoder that did not learn from these calls: decode each half of data/train with a model of the
  # other half, then kaldi-punct nbest --n 10 <decode-dir> <words.txt> data/train/nbest (docs/training.md).
  for model in $lists; do
    [ -f data/train/nbest/words ] || { echo "$0: no data/train/nbest/words, so no $model" && continue; }
    kaldi-punct train --config "conf/$model.yaml" data/train data/dev "exp/$model"
  done
fi

if runs 4; then
  for dir in exp/*/best; do
    exp=${dir%/best}
    kaldi-punct punctuate --model "$dir" --from ctm --segments data/test/segments --utt2spk data/test/utt2spk \
      --wav-scp data/test/wav.scp data/test/ctm "$exp/test.text"
    kaldi-punct score data/test "$exp/test.text" | tee "$exp/test.score"
  done
  grep -h '%F1' exp/*/test.score
fi
