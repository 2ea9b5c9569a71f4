-- name: create_term_lengths
-- How many terms each row of a lexical index has (F-070), for 2,000 rows in a record: FTS5 keeps one record for each.
CREATE TABLE message_terms_length (
  block   INTEGER NOT NULL PRIMARY KEY,
  lengths BLOB NOT NULL
) STRICT;
CREATE TABLE unit_terms_length (
  block   INTEGER NOT NULL PRIMARY KEY,
  lengths BLOB NOT NULL
) STRICT;

-- name: has_term_lengths
SELECT count(*) = 2 FROM sqlite_schema WHERE type = 'table' AND name IN ('message_terms_length', 'unit_terms_length');

-- name: message_term_state
SELECT count(*), ifnull(max(origin), 0) FROM message_terms_docsize;

-- name: unit_term_state
SELECT count(*), ifnull(max(origin), 0) FROM unit_terms_docsize;

-- name: message_term_sizes
SELECT id, sz, origin FROM message_terms_docsize WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: unit_term_sizes
SELECT id, sz, origin FROM unit_terms_docsize WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: message_length_blocks
SELECT DISTINCT id / ? FROM message_terms_docsize;

-- name: unit_length_blocks
SELECT DISTINCT id / ? FROM unit_terms_docsize;

-- name: message_length_block
SELECT lengths FROM message_terms_length WHERE block = ?;

-- name: unit_length_block
SELECT lengths FROM unit_terms_length WHERE block = ?;

-- name: put_message_length_block
INSERT INTO message_terms_length (block, lengths) VALUES (?, ?)
ON CONFLICT (block) DO UPDATE SET lengths = excluded.lengths;

-- name: put_unit_length_block
INSERT INTO unit_terms_length (block, lengths) VALUES (?, ?)
ON CONFLICT (block) DO UPDATE SET lengths = excluded.lengths;

-- name: clear_message_lengths
DELETE FROM message_terms_length;

-- name: clear_unit_lengths
DELETE FROM unit_terms_length;
