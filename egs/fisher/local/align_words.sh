#!/usr/bin/env bash
# Times of the words of a data directory, by forced alignment in a Kaldi recipe; puts a ctm into the directory.
# The CTM has the words of text: Kaldi's has <unk> for each one that its lexicon lacks.

# Begin configuration section.
cmd=run.pl
nj=30
mfcc_config=conf/mfcc_hires.conf
ivectors= # i-vector extractor; "" for a model without
# End configuration section.

set -euo pipefail
while [ $# -gt 0 ]; do
  case "$1" in
    --cmd) cmd=$2 ;;
    --nj) nj=$2 ;;
    --mfcc-config) mfcc_config=$2 ;;
    --ivectors) ivectors=$2 ;;
    --*) echo "$0: unknown option $1 (see the configuration section)" >&2 && exit 1 ;;
    *) break ;;
  esac
  shift 2
done
if [ $# -ne 4 ]; then
  echo "Usage: $0 [--cmd C] [--nj N] [--mfcc-config F] [--ivectors DIR] <data-dir> <s5> <lang> <model-dir>"
  echo "e.g.: $0 --nj 8 data/dev ~/kaldi/egs/fisher_swbd/s5 data/lang exp/chain/tdnn_lstm_1a_sp"
  echo "<lang>, <model-dir> and what the options name are below <s5>."
  exit 1
fi
data=$(cd "$1" && pwd)
s5=$2
lang=$3
mdl=$4
cd "$s5"
for f in path.sh "$lang/words.txt" "$mdl/final.mdl" "$mdl/tree" "$mfcc_config"; do
  [ -f "$f" ] || { echo "$0: expected file $s5/$f to exist" >&2 && exit 1; }
done

name=punct_$(basename "$data")
mkdir -p "data/$name"
for f in text segments wav.scp utt2spk spk2utt reco2file_and_channel; do
  cp "$data/$f" "data/$name"
done
steps/make_mfcc.sh --cmd "$cmd" --nj "$nj" --mfcc-config "$mfcc_config" "data/$name"
steps/compute_cmvn_stats.sh "data/$name"
utils/fix_data_dir.sh "data/$name" # utterances whose sound is too short

opts=()
if [ -n "$ivectors" ]; then
  steps/online/nnet2/extract_ivectors_online.sh --cmd "$cmd" --nj "$nj" "data/$name" "$ivectors" "exp/$name/ivectors"
  opts+=(--online-ivector-dir "exp/$name/ivectors")
fi
frame_shift=0.01
if [ -f "$mdl/frame_subsampling_factor" ]; then # a chain model
  frame_shift=0.0$(cat "$mdl/frame_subsampling_factor")
  opts+=(--scale-opts "--transition-scale=1.0 --acoustic-scale=1.0 --self-loop-scale=1.0")
fi
steps/nnet3/align.sh --cmd "$cmd" --nj "$nj" --use-gpu false "${opts[@]}" "data/$name" "$lang" "$mdl" "exp/$name/ali"
steps/get_train_ctm.sh --cmd "$cmd" --use-segments false --frame-shift "$frame_shift" "data/$name" "$lang" "exp/$name/ali"

# Three readings: words of each utterance, lines of each, lines again. Where the numbers differ, Kaldi's words stay.
awk -v text="$data/text" -v name="$0" '
  FILENAME == text { n[$1] = NF - 1; for (i = 2; i <= NF; i++) word[$1, i - 1] = $i; next }
  FNR == 1 { reading++ }
  reading == 1 { lines[$1]++; next }
  { k[$1]++; if (lines[$1] == n[$1]) $5 = word[$1, k[$1]]; else other[$1] = 1; print }
  END {
    for (u in other) n_other++
    for (u in n) n_lost += !(u in lines)
    printf "%s: %d utterances have no times, %d have other words than text\n", name, n_lost, n_other > "/dev/stderr"
  }' "$data/text" "exp/$name/ali/ctm" "exp/$name/ali/ctm" | LC_ALL=C sort -s -k1,1 >"$data/ctm.tmp"
mv "$data/ctm.tmp" "$data/ctm"
