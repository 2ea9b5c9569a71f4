-- Results of speed runs. Rows are only ever added.
CREATE TABLE run (
  id             INTEGER PRIMARY KEY,
  started_at     TEXT NOT NULL,     -- UTC, ISO 8601
  memdb_version  TEXT NOT NULL,
  code_sha256    TEXT NOT NULL,     -- of memdb's source, SQL and model cards
  settings       TEXT NOT NULL,     -- JSON: every constant of memdb.settings
  options        TEXT NOT NULL,     -- JSON: what the run was asked for
  models         TEXT NOT NULL,     -- JSON: model name -> sha256
  libraries      TEXT NOT NULL,     -- JSON: library -> version, of those that were measured against
  machine        TEXT NOT NULL,     -- JSON: processor, cores, system, python, sqlite
  seconds        REAL NOT NULL
) STRICT;

CREATE TABLE measured (
  run            INTEGER NOT NULL REFERENCES run,
  "row"          TEXT NOT NULL,     -- of the table: dense, lexical, hybrid, …
  contender      TEXT NOT NULL,
  figure         TEXT NOT NULL,     -- what it is, with its unit
  value          REAL NOT NULL,
  size           INTEGER,           -- messages in the file
  note           TEXT NOT NULL
) STRICT;

-- Figures held against their targets.
CREATE TABLE held (
  run            INTEGER NOT NULL REFERENCES run,
  "row"          TEXT NOT NULL,
  what           TEXT NOT NULL,
  value          REAL NOT NULL,
  target         REAL NOT NULL,
  at_least       INTEGER NOT NULL CHECK (at_least IN (0, 1)),
  size           INTEGER
) STRICT;

CREATE TABLE skipped (
  run            INTEGER NOT NULL REFERENCES run,
  "row"          TEXT NOT NULL,
  what           TEXT NOT NULL,
  why            TEXT NOT NULL
) STRICT;

CREATE TRIGGER run_stays BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER run_kept BEFORE DELETE ON run BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER measured_stays BEFORE UPDATE ON measured BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER measured_kept BEFORE DELETE ON measured BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
