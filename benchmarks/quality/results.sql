-- Results of benchmark runs. Rows are only ever added.
CREATE TABLE run (
  id             INTEGER PRIMARY KEY,
  benchmark      TEXT NOT NULL,
  started_at     TEXT NOT NULL,     -- UTC, ISO 8601
  memdb_version  TEXT NOT NULL,
  code_sha256    TEXT NOT NULL,     -- of memdb's source, SQL and model cards
  settings       TEXT NOT NULL,     -- JSON: every constant of memdb.settings
  options        TEXT NOT NULL,     -- JSON: what the run was asked for
  models         TEXT NOT NULL,     -- JSON: model name -> sha256
  data_sha256    TEXT NOT NULL,
  machine        TEXT NOT NULL,     -- JSON: processor, cores, system, python, sqlite
  tokenizer      TEXT NOT NULL,     -- what counted the context tokens
  conversations  INTEGER NOT NULL,
  messages       INTEGER NOT NULL,
  questions      INTEGER NOT NULL,  -- scored: those with gold
  unscored       INTEGER NOT NULL,  -- left out: no gold
  add_seconds    REAL NOT NULL,
  seconds        REAL NOT NULL
) STRICT;

CREATE TABLE question (
  run            INTEGER NOT NULL REFERENCES run,
  retriever      TEXT NOT NULL,
  conversation   TEXT NOT NULL,
  number         INTEGER NOT NULL,  -- position in the conversation's questions, from 0
  category       INTEGER NOT NULL,
  gold           TEXT NOT NULL,     -- JSON: message ids
  ranks          TEXT NOT NULL,     -- JSON: rank of each gold message from 1, null beyond 100
  "values"       TEXT NOT NULL,     -- JSON: figures and counts of this question
  milliseconds   REAL NOT NULL,
  PRIMARY KEY (run, retriever, conversation, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER run_stays BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER run_kept BEFORE DELETE ON run BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER question_stays BEFORE UPDATE ON question BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER question_kept BEFORE DELETE ON question BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
