#!/usr/bin/env bash

# Copyright 2026  kaldi_punct authors
# Apache 2.0

# Scores punctuated text against a data directory's text_punct: words may differ, marks are carried over by alignment.
# Writes <punct-dir>/scoring_punct/report.txt (per class) and best_f1, one line to grep for:
#   for x in exp/*/*/decode*_punct; do cat $x/scoring_punct/best_f1; done

# Begin configuration section.
cmd=run.pl
# End configuration section.

echo "$0 $*"

# shellcheck disable=SC1091
[ -f ./path.sh ] && . ./path.sh
# shellcheck disable=SC1091
. utils/parse_options.sh || exit 1

if [ $# -ne 2 ]; then
  echo "Usage: $0 [options] <data-dir> <punct-dir>"
  echo "e.g.:"
  echo "$0 --cmd \"\$decode_cmd\" data/dev exp/chain/tdnn1a_sp/decode_dev_punct"
  echo "Main options (for others, see top of script file)"
  echo "  --cmd (run.pl|queue.pl...)            # how to run jobs."
  exit 1
fi

data=$1
dir=$2

if ! command -v kaldi-punct >/dev/null; then
  echo "$0: expected the program kaldi-punct on the PATH; install the package kaldi_punct by pip and name its bin folder in path.sh"
  exit 1
fi

for f in "$data/text_punct" "$dir/text_punct"; do
  [ ! -f "$f" ] && echo "$0: expected file $f to exist" && exit 1
done

set -e -o pipefail

mkdir -p "$dir/scoring_punct/log"
rm -f "$dir/scoring_punct/best_f1"
# shellcheck disable=SC2086  # cmd may hold options: "queue.pl --mem 4G"
$cmd "$dir/scoring_punct/log/score.log" \
  kaldi-punct score "$data/text_punct" "$dir/text_punct" '>' "$dir/scoring_punct/report.txt" || exit 1

grep -m 1 '^%F1 ' "$dir/scoring_punct/report.txt" >"$dir/scoring_punct/best_f1"
cat "$dir/scoring_punct/best_f1"
exit 0
