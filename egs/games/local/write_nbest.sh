#!/usr/bin/env bash
# N-best lists of the training folds, to be trained on beside the reference words: <data>/ref/{a,b}/nbest.
#
# e.g.: local/write_nbest.sh corpora/games data
#
# Each fold is decoded by the model of the other; scales are those that the corpus' best paths were taken with.

set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 <corpus-dir> <data>" >&2 && exit 1; }
corpus=$1 data=$2

lang=$corpus/decode/lang
[ -d "$lang" ] || lang=$corpus/lang
for fold in a b; do
  chain=$corpus/decode/chain_$([ "$fold" = a ] && echo b || echo a)
  kaldi-punct nbest --n 10 --acoustic-scale 0.1 --word-ins-penalty 0.5 --frame-shift 0.03 \
    --word-boundary "$lang/phones/word_boundary.int" --transition-model "$chain/trans.mdl" \
    "$chain/decode_turns_train_$fold" "$lang/words.txt" "$data/ref/$fold/nbest"
done
