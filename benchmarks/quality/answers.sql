-- Answers of benchmark runs, since format 2. Rows are only ever added.
CREATE TABLE answer (
  run            INTEGER NOT NULL REFERENCES run,
  answerer       TEXT NOT NULL,     -- extractive, text, token
  conversation   TEXT NOT NULL,
  number         INTEGER NOT NULL,  -- position in the conversation's questions, from 0
  category       INTEGER NOT NULL,
  wanted         TEXT NOT NULL,     -- the reference, empty where nothing answers
  text           TEXT NOT NULL,
  labels         TEXT NOT NULL,     -- JSON: the pieces of evidence it cites
  judged         TEXT NOT NULL,     -- JSON: 1 for correct, 0 for incorrect, each time it was judged
  "values"       TEXT NOT NULL,     -- JSON: figures and counts of this answer
  milliseconds   REAL NOT NULL,
  PRIMARY KEY (run, answerer, conversation, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER answer_stays BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
CREATE TRIGGER answer_kept BEFORE DELETE ON answer BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
