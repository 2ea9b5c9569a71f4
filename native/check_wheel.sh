#!/usr/bin/env bash
# A wheel, installed away from the sources, answers with memdb0, without it, and where it could not be compiled: the
# same. Takes minutes, and a package index to install from. Say which Python by PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=$PWD
unset PYTHONPATH MEMDB_NATIVE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# answers NAME ENGINE: what a new memory recalls goes to NAME.json, and ENGINE must be what searches it.
answers() {
  (
    cd "$work"
    venv/bin/memdb add "$1.memdb" "$sources/examples/ana.json" > "$1.added"
    for question in "When was Ana at the hospital?" "Where does Ana live?" "What did Ben cook?"; do
      venv/bin/memdb recall "$1.memdb" "$question" --json
    done > "$1.json"
    venv/bin/memdb verify "$1.memdb" > "$1.verified"
    tail -n 1 "$1.verified"
    grep -q "^sound" "$1.verified"
    grep -q "^search: $2" "$1.verified"
    test "$(grep -c '"text"' "$1.json")" -gt 0
  )
}

same() {
  cmp "$work/$1.json" "$work/$2.json" && echo "same answers: $1, $2"
}

"${PYTHON:-python3}" -m venv "$work/venv"
pip() { "$work/venv/bin/python" -m pip --disable-pip-version-check "$@"; }

pip wheel --quiet --no-deps --wheel-dir "$work/built" .
pip install --quiet "$work"/built/*.whl
echo "$(cd "$work/built" && echo *.whl), $("$work/venv/bin/python" --version)"
answers built "memdb0 "

library=$(cd "$work" && venv/bin/python -c "from memdb.store import extensions; print(extensions.native_library())")
case $library in "$work"/*) rm "$library" ;; *) echo "$library is not in $work" >&2 && exit 1 ;; esac
answers deleted "sqlite-vec and FTS5 (memdb0 is not built)"
same built deleted

CC=/bin/false pip wheel --quiet --no-deps --wheel-dir "$work/pure" .
pip install --quiet --no-deps --force-reinstall "$work"/pure/*.whl
echo "$(cd "$work/pure" && echo *.whl)"
test ! -e "$library"
answers pure "sqlite-vec and FTS5 (memdb0 is not built)"
same built pure
