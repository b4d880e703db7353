#!/usr/bin/env bash
# Runs a recipe over real collections, with all that it needs, and writes its page into WORK/NAME. Of the page's
# tables, those that hold no text and no id of the collection are copied beside this file. What stands in WORK is
# used again.
#   RAYPIPE_DATA=/data/collections docs/analysis/make.sh NAME WORK
# NAME: medquad-cip, car-test200, msmarco-v2-dl21 or nfcorpus-reranked.
set -euo pipefail
shopt -s nullglob
name=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2" && cd "$2"
export RUNS=$PWD/runs TRAINED
mkdir -p "$RUNS"

cip() {  # the judged documents of MedQuAD's LiveQA questions; docs/experiments/medquad-cip.yaml says more
  local data=$RAYPIPE_DATA/medquad-liveqa
  zcat "$data/train.qrels.txt.gz" | awk -v to="$RUNS" '
    {d = $3; sub(/_Sec[0-9]+$/, "", d); dev = d ~ /33$/}
    dev && NR % 3 == 0 {print > (to "/dev.txt"); print $1, 0, d, 1 > (to "/dev.documents.txt")}
    !dev && NR % 4 == 0 {print > (to "/train.txt")}
    !dev && NR % 200 == 1 {print $1, 0, d, 1 > (to "/train.documents.txt")}'
  for part in answers documents; do raypipe pipeline "$here/../experiments/medquad-cip-$part.yaml" --out "$RUNS/$part"; done
  (
    cd "$RUNS"
    zcat "$data/qrels.doc.derived.txt.gz" > judgements.txt
    awk 'NR == FNR {if ($4 <= 100) found[$1, $3]; next} ($1, $3) in found' \
      documents/runs/liveqa/bm25.trec judgements.txt > found.txt
    awk 'NR == FNR {if ($4 > 0) asked[$1]; next} $1 in asked' found.txt found.txt > judged.txt
    awk 'NR == FNR {judged[$1, $3]; next} ($1, $3) in judged' \
      judged.txt documents/runs/liveqa/bm25.trec > judged.trec
  )
  raypipe train "$here/../experiments/medquad-cip.yaml" --out trained stores="$PWD/stores"
  TRAINED=$PWD/trained
  raypipe pipeline "$here/../experiments/medquad-cip-reranked.yaml" --out medquad-cip
}

nfcorpus() {  # all test questions, with the packaged rerankers in the place of those of docs/training.md
  TRAINED=none raypipe pipeline "$here/../experiments/nfcorpus-reranked.yaml" --out nfcorpus-reranked resources.precision=bf16 \
    models.mono.path=minilm-mono models.duo.path=minilm-duo
}

case $name in
  medquad-cip) cip ;;
  nfcorpus-reranked) nfcorpus ;;
  car-test200 | msmarco-v2-dl21) raypipe pipeline "$name" --out "$name" ;;
  *) echo "$name: see the beginning of $0" >&2; exit 2 ;;
esac
raypipe report "$name"
if [ "$name" = msmarco-v2-dl21 ]; then
  raypipe analyse consistency "$name" --reference given-bm25 --json > "$name/analysis/consistency.dl21.json"
fi
mkdir -p "$here/$name"
cp "$name"/analysis/{overview,depth,tradeoff,fusion,consistency}*.json "$here/$name"
