-- memdb file format 1.
--
-- One SQLite file holds everything: the messages as they were said, what was made of them, and the indexes over both.
-- docs/file_format.md states what holds between these tables in numbered sentences; `memdb verify` re-derives it.
--
-- {dimension} is the dimension of the encoder that made the file's vectors (meta: encoder_dimension). All vectors have
-- length 1 before they are coded as int8: round(component * vector_scale), clipped to ±127 (meta: vector_scale).

PRAGMA application_id = 1835363684;  -- 'med' + 'd': 0x6D656D64, "memd"
PRAGMA user_version = 1;

-- What made this file: format, memdb version, encoder (name, sha256, dimension), vector_scale, settings that shaped it.
CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Whose memory. Unnamed parts are NULL. Every row that can be found by a question belongs to one scope.
CREATE TABLE scope (
  scope_id INTEGER NOT NULL PRIMARY KEY,
  user     TEXT CHECK (user <> ''),
  agent    TEXT CHECK (agent <> ''),
  run      TEXT CHECK (run <> '')
) STRICT;
CREATE UNIQUE INDEX scope_parts ON scope (ifnull(user, ''), ifnull(agent, ''), ifnull(run, ''));

-- A conversation between one opening and one closing. `source` tells apart the places sessions were imported from.
CREATE TABLE session (
  session_id INTEGER NOT NULL PRIMARY KEY,
  scope_id   INTEGER NOT NULL REFERENCES scope,
  source     TEXT NOT NULL DEFAULT '',
  name       TEXT NOT NULL CHECK (name <> ''),
  UNIQUE (scope_id, source, name),
  UNIQUE (session_id, scope_id)
) STRICT;

-- A message as it was said; never rewritten. The speaker's clock reading is either a day with a moment (microseconds
-- since 1970-01-01T00:00Z; offset in minutes if a zone was given), or a serial number, or unknown. `said_day` counts
-- days from 1970-01-01 in the speaker's own calendar. `said_key` orders: the moment, or 2^62 plus the
-- serial number.
CREATE TABLE message (
  message_id      INTEGER NOT NULL PRIMARY KEY,
  scope_id        INTEGER NOT NULL,
  session_id      INTEGER NOT NULL,
  position        INTEGER NOT NULL CHECK (position >= 0),
  said_day        INTEGER,
  said_utc_us     INTEGER,
  said_offset_min INTEGER CHECK (said_offset_min BETWEEN -1440 AND 1440),
  said_serial     INTEGER CHECK (said_serial >= 0),
  said_text       TEXT,
  speaker         TEXT NOT NULL,
  role            TEXT,
  external_id     TEXT CHECK (external_id <> ''),
  location        TEXT,
  content         TEXT NOT NULL,
  image_caption   TEXT,
  said_key        INTEGER GENERATED ALWAYS AS (coalesce(said_utc_us, said_serial + 4611686018427387904)) VIRTUAL,
  UNIQUE (session_id, position),
  UNIQUE (session_id, external_id),
  FOREIGN KEY (session_id, scope_id) REFERENCES session (session_id, scope_id),
  CHECK ((said_day IS NULL) = (said_utc_us IS NULL)),
  CHECK (said_day IS NULL OR said_serial IS NULL),
  CHECK ((said_text IS NULL) = (said_day IS NULL AND said_serial IS NULL)),
  CHECK (said_offset_min IS NULL OR said_utc_us IS NOT NULL)
) STRICT;
CREATE INDEX message_day ON message (said_day) WHERE said_day IS NOT NULL;

-- Who speaks in a scope, and in how many messages.
CREATE TABLE speaker (
  scope_id INTEGER NOT NULL REFERENCES scope,
  name     TEXT NOT NULL,
  messages INTEGER NOT NULL CHECK (messages > 0),
  PRIMARY KEY (scope_id, name)
) STRICT, WITHOUT ROWID;

-- A window of construction work (QGMem appendix A1): positions [first_position, end_position), new from new_position on.
-- Its units are those of made_by: 'rules' (rules-N) or 'done' (a model and its prompts); 'failed': a model's answers could
-- not be used, for the reason in error; 'pending': messages came since, whose units are by rules. attempts since it grew.
CREATE TABLE window (
  session_id     INTEGER NOT NULL REFERENCES session,
  window_no      INTEGER NOT NULL CHECK (window_no >= 0),
  first_position INTEGER NOT NULL,
  end_position   INTEGER NOT NULL,
  new_position   INTEGER NOT NULL,
  state          TEXT NOT NULL CHECK (state IN ('pending', 'rules', 'done', 'failed')),
  made_by        TEXT,
  attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  error          TEXT,
  PRIMARY KEY (session_id, window_no),
  CHECK (0 <= first_position AND first_position <= new_position AND new_position < end_position)
) STRICT, WITHOUT ROWID;

-- What checks refused when a window was last made or failed: at which stage, for which reason code (F-039).
CREATE TABLE rejection (
  rejection_id INTEGER NOT NULL PRIMARY KEY,
  session_id   INTEGER NOT NULL,
  window_no    INTEGER NOT NULL,
  stage        TEXT NOT NULL CHECK (stage IN ('units', 'indexes')),
  reason       TEXT NOT NULL,
  detail       TEXT,
  FOREIGN KEY (session_id, window_no) REFERENCES window
) STRICT;
CREATE INDEX rejection_window ON rejection (session_id, window_no);

-- One atomic claim (QGMem equation 1) and the span of messages it rests on; `message_id` is the most direct of them.
-- Its utterance time is that of this message.
CREATE TABLE unit (
  unit_id        INTEGER NOT NULL PRIMARY KEY,
  scope_id       INTEGER NOT NULL,
  session_id     INTEGER NOT NULL,
  window_no      INTEGER NOT NULL,
  number         INTEGER NOT NULL CHECK (number >= 0),
  message_id     INTEGER NOT NULL REFERENCES message,
  first_position INTEGER NOT NULL,
  last_position  INTEGER NOT NULL,
  fact_text      TEXT NOT NULL CHECK (fact_text <> ''),
  subject        TEXT,
  predicate      TEXT,
  object         TEXT,
  UNIQUE (session_id, window_no, number),
  FOREIGN KEY (session_id, scope_id) REFERENCES session (session_id, scope_id),
  FOREIGN KEY (session_id, window_no) REFERENCES window,
  FOREIGN KEY (session_id, first_position) REFERENCES message (session_id, position),
  FOREIGN KEY (session_id, last_position) REFERENCES message (session_id, position),
  CHECK (first_position <= last_position),
  CHECK ((subject IS NULL) = (predicate IS NULL) AND (subject IS NULL) = (object IS NULL))
) STRICT;
CREATE INDEX unit_message ON unit (message_id);
CREATE INDEX unit_last ON unit (session_id, last_position);

-- When the fact of a unit happened: closed ranges of days from 1970-01-01. No row: unknown.
CREATE TABLE unit_interval (
  unit_id     INTEGER NOT NULL REFERENCES unit,
  start_day   INTEGER NOT NULL,
  end_day     INTEGER NOT NULL,
  granularity TEXT NOT NULL CHECK (granularity IN ('day', 'week', 'month', 'year')),
  PRIMARY KEY (unit_id, start_day, end_day),
  CHECK (start_day <= end_day)
) STRICT, WITHOUT ROWID;
CREATE INDEX unit_interval_days ON unit_interval (start_day, end_day);

-- A distinct string on one axis, embedded once; `folded` is its form for comparison without case.
CREATE TABLE label (
  label_id INTEGER NOT NULL PRIMARY KEY,
  axis     TEXT NOT NULL CHECK (axis IN ('entity', 'location', 'subject', 'predicate')),
  name     TEXT NOT NULL CHECK (name <> ''),
  folded   TEXT NOT NULL,
  UNIQUE (axis, name)
) STRICT;
CREATE INDEX label_folded ON label (axis, folded);

CREATE TABLE unit_label (
  label_id INTEGER NOT NULL REFERENCES label,
  unit_id  INTEGER NOT NULL REFERENCES unit,
  PRIMARY KEY (label_id, unit_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX unit_label_unit ON unit_label (unit_id);

-- How one relation changed (QGMem equation 3): relation ψ, trajectory H; the members in memory order are in trace_unit.
-- made_by: 'rules', the model that told the trajectory, or 'rules/' and a model whose trajectory was not used.
CREATE TABLE trace (
  trace_id      INTEGER NOT NULL PRIMARY KEY,
  scope_id      INTEGER NOT NULL REFERENCES scope,
  relation_text TEXT NOT NULL,
  trajectory    TEXT NOT NULL,
  made_by       TEXT NOT NULL,
  dirty         INTEGER NOT NULL DEFAULT 0 CHECK (dirty IN (0, 1))
) STRICT;
CREATE INDEX trace_scope ON trace (scope_id, dirty);

-- `number` is the memory order, oldest first; the one `current` member holds now.
CREATE TABLE trace_unit (
  trace_id INTEGER NOT NULL REFERENCES trace,
  number   INTEGER NOT NULL CHECK (number >= 0),
  unit_id  INTEGER NOT NULL UNIQUE REFERENCES unit,
  current  INTEGER NOT NULL CHECK (current IN (0, 1)),
  PRIMARY KEY (trace_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX trace_current ON trace_unit (trace_id) WHERE current = 1;

-- Adjacent messages of one session with coherent content (DeferMem section 3.2); link_id is the smallest segment_id
-- of its link group. Only the open last segment of a session may change.
CREATE TABLE segment (
  segment_id     INTEGER NOT NULL PRIMARY KEY,
  scope_id       INTEGER NOT NULL,
  session_id     INTEGER NOT NULL,
  number         INTEGER NOT NULL CHECK (number >= 0),
  first_position INTEGER NOT NULL,
  last_position  INTEGER NOT NULL,
  link_id        INTEGER NOT NULL REFERENCES segment (segment_id),
  closed         INTEGER NOT NULL CHECK (closed IN (0, 1)),
  UNIQUE (session_id, number),
  UNIQUE (session_id, first_position),
  FOREIGN KEY (session_id, scope_id) REFERENCES session (session_id, scope_id),
  FOREIGN KEY (session_id, first_position) REFERENCES message (session_id, position),
  FOREIGN KEY (session_id, last_position) REFERENCES message (session_id, position),
  CHECK (first_position <= last_position)
) STRICT;
CREATE INDEX segment_group ON segment (link_id);

-- Two segments whose vectors are at least tau2 alike; both directions are stored.
CREATE TABLE segment_link (
  segment_id INTEGER NOT NULL REFERENCES segment,
  other_id   INTEGER NOT NULL REFERENCES segment (segment_id),
  similarity REAL NOT NULL,
  PRIMARY KEY (segment_id, other_id),
  CHECK (segment_id <> other_id)
) STRICT, WITHOUT ROWID;

-- Lexical indexes. They hold no text of their own: the terms are derived from the rows above, with every run of a
-- script that writes no blanks between words cut into single characters and pairs before it is tokenised.
-- A message has five fields: what it states (with speaker and caption), what it asks, what the message before it asked,
-- its neighbourhood (the day, and what the messages before it state), and what the message after it states.
-- From the first messages on two more tables tell the rows' lengths, those of statements/lengths.sql.
CREATE VIRTUAL TABLE message_terms USING fts5 (
  own, question, prompt, context, after, content = '', contentless_delete = 1,
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* M* N* Co'"
);
CREATE VIRTUAL TABLE unit_terms USING fts5 (
  fact, labels, content = '', contentless_delete = 1,
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* M* N* Co'"
);

-- Vectors. While others take their place (F-046) there is one more table, of statements/reembed.sql. That of a message is of what it states and the question it replies to. said_key as in message; 9223372036854775807 where it is unknown.
CREATE VIRTUAL TABLE message_vector USING vec0 (
  message_id INTEGER PRIMARY KEY, scope_id INTEGER, said_key INTEGER,
  own INT8[{dimension}] distance_metric=cosine,
  chunk_size=168
);
CREATE VIRTUAL TABLE unit_vector USING vec0 (
  unit_id INTEGER PRIMARY KEY, scope_id INTEGER, said_key INTEGER,
  fact INT8[{dimension}] distance_metric=cosine,
  chunk_size=168
);
CREATE VIRTUAL TABLE triple_vector USING vec0 (
  unit_id INTEGER PRIMARY KEY, scope_id INTEGER,
  triple INT8[{dimension}] distance_metric=cosine,
  chunk_size=168
);
CREATE VIRTUAL TABLE label_vector USING vec0 (
  label_id INTEGER PRIMARY KEY, axis TEXT,
  name INT8[{dimension}] distance_metric=cosine,
  chunk_size=168
);
CREATE VIRTUAL TABLE segment_vector USING vec0 (
  segment_id INTEGER PRIMARY KEY, scope_id INTEGER,
  mean INT8[{dimension}] distance_metric=cosine,
  chunk_size=168
);

-- The signs of the components of vectors, by which a large table is searched first: of a chunk of vec0 that is full, cut
-- into parts that stay on a page each, in row chunk_id * 4096 + part. Where there are none a search takes longer.
CREATE TABLE message_vector_code (
  code_id INTEGER NOT NULL PRIMARY KEY,
  codes   BLOB NOT NULL
) STRICT;
CREATE TABLE unit_vector_code (
  code_id INTEGER NOT NULL PRIMARY KEY,
  codes   BLOB NOT NULL
) STRICT;
CREATE TABLE label_vector_code (
  code_id INTEGER NOT NULL PRIMARY KEY,
  codes   BLOB NOT NULL
) STRICT;
