#!/usr/bin/env bash
# Build the documentation site into site/; a broken link or anchor is an error. --serve shows it at localhost:8000.
# DOCS_SOURCE: address of the repository's files (https://github.com/OWNER/NAME/blob/main); without it, links to files
# that are not pages become plain text.
set -euo pipefail
case $* in
    '' | --serve) ;;
    --help) sed -n '2,4s/^# //p' "$0"; exit ;;
    *) { echo "docs.sh: unknown option $*"; sed -n '2,4s/^# //p' "$0"; } >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"
python scripts/stage_docs.py build/docs ${DOCS_SOURCE:+--source "$DOCS_SOURCE"}
rm -rf site
zensical build --clean --strict
python scripts/stage_docs.py site --formulas
[[ ${1:-} != --serve ]] || exec python -m http.server --bind 127.0.0.1 --directory site 8000
