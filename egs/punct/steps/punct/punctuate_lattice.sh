#!/usr/bin/env bash

# Copyright 2026  kaldi_punct authors
# Apache 2.0

# Puts punctuation and capitals onto the best paths of a decode directory's lattices.
# Word times come from the lattices, so the model knows the pauses; segments of one recording are read as one
# conversation, as far as they are in one job (utils/split_data.sh keeps a speaker's together). The result is
# <punct-dir>/text_punct, a table like <data-dir>/text (or, by --to, <punct-dir>/ctm or <punct-dir>/punct.jsonl).

# Begin configuration section.
cmd=run.pl
stage=0
model=en            # built-in name or directory of the punctuation model
to=text             # text | ctm | jsonl
mdl=                # acoustic model, for its transition model; default <decode-dir>/final.mdl or <decode-dir>/../final.mdl
acoustic_scale=     # default 1/LMWT of <decode-dir>/scoring_kaldi/best_wer
word_ins_penalty=   # default that of the same file, else 0
frame_shift=        # seconds a lattice frame; default from frame_subsampling_factor or frame_shift beside the model
use_audio=false     # give the model the sound of <data-dir>/wav.scp
# End configuration section.

echo "$0 $*"

# shellcheck disable=SC1091
[ -f ./path.sh ] && . ./path.sh
# shellcheck disable=SC1091
. utils/parse_options.sh || exit 1

if [ $# -ne 4 ]; then
  echo "Usage: $0 [options] <data-dir> <lang-dir|graph-dir> <decode-dir> <punct-dir>"
  echo "e.g.:"
  echo "$0 --cmd \"\$decode_cmd\" data/dev exp/chain/tdnn1a_sp/graph \\"
  echo "  exp/chain/tdnn1a_sp/decode_dev exp/chain/tdnn1a_sp/decode_dev_punct"
  echo "Main options (for others, see top of script file)"
  echo "  --cmd (run.pl|queue.pl...)            # how to run jobs."
  echo "  --model <en|dir>                      # punctuation model (default en)."
  echo "  --to (text|ctm|jsonl)                 # what to write (default text)."
  echo "  --acoustic-scale <scale>              # default: found in <decode-dir>/scoring_kaldi."
  echo "  --frame-shift <seconds>               # default: found beside the acoustic model."
  echo "  --use-audio (true|false)              # let a model that hears hear (default false)."
  exit 1
fi

data=$1
lang=$2
decode_dir=$3
dir=$4

if ! command -v kaldi-punct >/dev/null; then
  echo "$0: expected the program kaldi-punct on the PATH; install the package kaldi_punct by pip and name its bin folder in path.sh"
  exit 1
fi

if [ -z "$mdl" ]; then
  mdl=$decode_dir/final.mdl
  [ -f "$mdl" ] || mdl=$decode_dir/../final.mdl
fi

for f in "$data/utt2spk" "$lang/words.txt" "$lang/phones/word_boundary.int" "$mdl" "$decode_dir/num_jobs" "$decode_dir/lat.1.gz"; do
  [ ! -f "$f" ] && echo "$0: expected file $f to exist" && exit 1
done
if [ "$use_audio" = true ] && [ ! -f "$data/wav.scp" ]; then
  echo "$0: expected file $data/wav.scp to exist (--use-audio true)"
  exit 1
fi

case $to in
text) out=text_punct ;;
ctm) out=ctm ;;
jsonl) out=punct.jsonl ;;
*) echo "$0: expected --to to be text, ctm or jsonl, got $to" && exit 1 ;;
esac

set -e -o pipefail

nj=$(cat "$decode_dir/num_jobs")
mkdir -p "$dir/log"
echo "$nj" >"$dir/num_jobs"

opts=(--model "$model" --from lattice --to "$to")
opts+=(--words "$lang/words.txt" --word-boundary "$lang/phones/word_boundary.int" --transition-model "$mdl")
opts+=(--utt2spk "$data/utt2spk")
[ -f "$data/segments" ] && opts+=(--segments "$data/segments")
[ "$use_audio" = true ] && opts+=(--wav-scp "$data/wav.scp")
[ -n "$acoustic_scale" ] && opts+=(--acoustic-scale "$acoustic_scale")
[ -n "$word_ins_penalty" ] && opts+=(--word-ins-penalty "$word_ins_penalty")
[ -n "$frame_shift" ] && opts+=(--frame-shift "$frame_shift")

if [ "$stage" -le 0 ]; then
  echo "$0: punctuating the lattices of $decode_dir"
  rm -f "$dir/$out"
  # shellcheck disable=SC2086  # cmd may hold options: "queue.pl --mem 4G"
  $cmd "JOB=1:$nj" "$dir/log/punctuate.JOB.log" \
    kaldi-punct punctuate "${opts[@]}" "ark:$decode_dir/lat.JOB.gz" "$dir/$out.JOB" || exit 1
fi

if [ "$stage" -le 1 ]; then
  for n in $(seq "$nj"); do
    [ ! -f "$dir/$out.$n" ] && echo "$0: expected file $dir/$out.$n to exist; see $dir/log/punctuate.$n.log" && exit 1
  done
  for n in $(seq "$nj"); do cat "$dir/$out.$n"; done >"$dir/$out.tmp"
  # Jobs are split by speaker, so their tables need not follow one another in order.
  [ "$to" = text ] && LC_ALL=C sort -o "$dir/$out.tmp" "$dir/$out.tmp"
  mv "$dir/$out.tmp" "$dir/$out"
fi

echo "$0: wrote $dir/$out ($(wc -l <"$dir/$out") lines)"
exit 0
