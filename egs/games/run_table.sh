#!/usr/bin/env bash
# One table of docs/results.md: trains and scores the runs that are missing, then prints the table.
#
# e.g.: ./run_table.sh --table fusion
#       ./run_table.sh --table streaming --folds a
#
# A run is a kind of words (ref, asr), the fold it is trained on, a row of conf/ and a seed. Its counts, one line a
# recording, are kept in results/<kind>_<fold>_<model>_s<seed>.<scored set>.jsonl.gz; a run that has them is not made
# again, and one that was stopped goes on from its last checkpoint. Needs the data of `./run.sh --stage 0`.

# Begin configuration section.
table=
data=data
exp=exp
results=results
folds="a b" # to train on; the other one is scored, and dev
seeds="1"
print_only=false
# End configuration section.

set -euo pipefail
cd "$(dirname "$0")"
while [ $# -gt 0 ]; do
  case "$1" in
    --table) table=$2 ;;
    --data) data=$2 ;;
    --exp) exp=$2 ;;
    --results) results=$2 ;;
    --folds) folds=$2 ;;
    --seeds) seeds=$2 ;;
    --print-only) print_only=$2 ;;
    *) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
  esac
  shift 2
done

kinds=ref hours="" baseline=text train_kind="" # words that are trained on; empty: those that are scored
case "$table" in
  fusion) # encoders and fusions (paper, table 2)
    models="blstm text timing pitch_fa pitch_onset pitch_attention melspec_fa sound melspec_attention melspec_both
      melspec_gate wav2vec_fa wav2vec_onset wav2vec_attention all all_wav2vec"
    kinds="ref asr"
    ;;
  streaming) # lookahead (paper, table 3)
    models="streaming_lstm_k0 streaming_text_k0 streaming_sound_k0 streaming_all_k0 streaming_text_k1 streaming_sound_k1
      streaming_all_k1 streaming_text_k2 streaming_sound_k2 streaming_all_k2 streaming_text_k4 streaming_sound_k4
      streaming_all_k4 text sound all"
    baseline=streaming_text_k0
    ;;
  small) # little data (paper, table 4)
    models="blstm text timing sound all"
    hours="1 all"
    kinds="ref asr"
    ;;
  nbest) # augmentation (paper, table 5): trained on reference words and hypotheses, scored on ASR words
    models="nbest_ref nbest_1 nbest_3 nbest_5 nbest_10"
    kinds=asr baseline=nbest_ref train_kind=ref
    ;;
  *) echo "$0: expected --table fusion, streaming, small or nbest, got '$table'" >&2 && exit 1 ;;
esac

for kind in $kinds; do
  for h in ${hours:-all}; do
    suffix=$([ "$h" = all ] || echo "_${h}h")
    for model in $models; do
      for fold in $folds; do
        for seed in $seeds; do
          run=${kind}_${fold}_$model${suffix}_s$seed
          other=$([ "$fold" = a ] && echo b || echo a)
          [ "$print_only" = false ] || continue
          if [ -s "$results/$run.$other.jsonl.gz" ] && [ -s "$results/$run.dev.jsonl.gz" ]; then
            continue
          fi
          if [ "$h" != all ] && [ ! -d "$data/${train_kind:-$kind}/$fold$suffix" ]; then
            kaldi-punct prepare --hours "$h" "$data/${train_kind:-$kind}/$fold" "$data/${train_kind:-$kind}/$fold$suffix"
          fi
          hear=()
          case "$model" in
            *wav2vec*) # one that learned from the fold's sound alone: what is scored, it never heard
              encoder=$exp/wav2vec_small_$fold
              kaldi-punct pretrain --objective contrastive --config conf/wav2vec_small.yaml \
                "$data/ref/$fold" "$data/ref/dev" "$encoder"
              for set in "$fold" "$other" dev; do
                [ -s "$data/$kind/$set/feats_speech_$fold.scp" ] ||
                  kaldi-punct feats --speech "$encoder/best" --suffix "_$fold" "$data/$kind/$set" "$data/$kind/$set"
              done
              hear=(--set "model.speech=$encoder/best")
              ;;
          esac
          kaldi-punct train --config "conf/$model.yaml" --set "train.seed=$seed" "${hear[@]}" \
            "$data/${train_kind:-$kind}/$fold$suffix" "$data/$kind/dev" "$exp/$run"
          mkdir -p "$results"
          for set in "$other" dev; do
            local/score_slots.py "$exp/$run/best" "$data/$kind/$set" --counts "$results/$run.$set.jsonl.gz"
          done
        done
      done
    done
    echo
    echo "## $table, $kind words, $h"
    # shellcheck disable=SC2086 # several values each
    local/show_table.py --results "$results" --kind "$kind" --suffix "$suffix" --folds $folds --seeds $seeds \
      --baseline "$baseline" $models
  done
done
