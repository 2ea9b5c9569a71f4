-- name: create_staged_vector
-- Vectors of an encoder that the file is being re-embedded with (F-046): nothing is searched by them before the switch.
CREATE TABLE staged_vector (
  kind   TEXT NOT NULL CHECK (kind IN ('message', 'unit', 'triple', 'label')),
  row_id INTEGER NOT NULL,
  code   BLOB NOT NULL,
  PRIMARY KEY (kind, row_id)
) STRICT, WITHOUT ROWID;

-- name: has_staged_vector
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'staged_vector';

-- name: drop_staged_vector
DROP TABLE staged_vector;

-- name: staged_by
SELECT value FROM meta WHERE key = 'staged_encoder_sha256';

-- name: set_staged_by
INSERT INTO meta (key, value) VALUES ('staged_encoder_sha256', ?);

-- name: forget_staged_by
DELETE FROM meta WHERE key = 'staged_encoder_sha256';

-- name: put_staged
INSERT INTO staged_vector (kind, row_id, code) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: count_staged
SELECT count(*) FROM staged_vector;

-- name: any_staged
SELECT EXISTS (SELECT 1 FROM staged_vector);

-- name: any_staged_of_another_length
SELECT EXISTS (SELECT 1 FROM staged_vector WHERE length(code) <> ?);

-- name: clear_staged
DELETE FROM staged_vector WHERE (kind, row_id) IN (SELECT kind, row_id FROM staged_vector LIMIT ?);

-- name: delete_staged
DELETE FROM staged_vector
WHERE kind IN (SELECT value FROM json_each(:kinds)) AND row_id IN (SELECT value FROM json_each(:ids));

-- name: count_embedded
-- How many vectors there should be, and how many there are.
SELECT (SELECT count(*) FROM message) + (SELECT count(*) + count(subject) FROM unit) + (SELECT count(*) FROM label),
       (SELECT count(*) FROM message_vector) + (SELECT count(*) FROM unit_vector)
       + (SELECT count(*) FROM triple_vector) + (SELECT count(*) FROM label_vector);

-- name: messages_to_embed
-- Rows after :after that have no staged vector and, unless the file's vectors are of another encoder, none at all.
SELECT message_id FROM message
WHERE message_id > :after
  AND NOT EXISTS (SELECT 1 FROM staged_vector WHERE kind = 'message' AND row_id = message_id)
  AND (:of_another OR NOT EXISTS (SELECT 1 FROM message_vector_rowids WHERE message_vector_rowids.rowid = message_id))
ORDER BY message_id LIMIT :most;

-- name: units_to_embed
SELECT unit_id FROM unit
WHERE unit_id > :after
  AND NOT EXISTS (SELECT 1 FROM staged_vector WHERE kind = 'unit' AND row_id = unit_id)
  AND (:of_another OR NOT EXISTS (SELECT 1 FROM unit_vector_rowids WHERE unit_vector_rowids.rowid = unit_id))
ORDER BY unit_id LIMIT :most;

-- name: labels_to_embed
SELECT label_id FROM label
WHERE label_id > :after
  AND NOT EXISTS (SELECT 1 FROM staged_vector WHERE kind = 'label' AND row_id = label_id)
  AND (:of_another OR NOT EXISTS (SELECT 1 FROM label_vector_rowids WHERE label_vector_rowids.rowid = label_id))
ORDER BY label_id LIMIT :most;

-- name: said_messages
-- Messages by their ids, each with what was said directly before it.
SELECT message.message_id, message.speaker, message.content, message.image_caption, before.content
FROM json_each(?) AS wanted CROSS JOIN message ON message.message_id = wanted.value
LEFT JOIN message AS before ON before.session_id = message.session_id AND before.position = message.position - 1;

-- name: claimed_units
SELECT unit_id, fact_text, subject, predicate, object FROM json_each(?) AS wanted CROSS JOIN unit ON unit_id = wanted.value;

-- name: named_labels
SELECT label_id, name FROM json_each(?) AS wanted CROSS JOIN label ON label_id = wanted.value;

-- name: set_encoder
UPDATE meta SET value = CASE key WHEN 'encoder_name' THEN :encoder_name WHEN 'encoder_sha256' THEN :encoder_sha256
                                 WHEN 'encoder_dimension' THEN :encoder_dimension ELSE :vector_scale END
WHERE key IN ('encoder_name', 'encoder_sha256', 'encoder_dimension', 'vector_scale');

-- name: move_message_vectors
INSERT INTO message_vector (message_id, scope_id, said_key, own)
SELECT message_id, scope_id, ifnull(said_key, 9223372036854775807), vec_int8(code)
FROM staged_vector CROSS JOIN message ON message_id = row_id WHERE kind = 'message' ORDER BY row_id;

-- name: move_unit_vectors
INSERT INTO unit_vector (unit_id, scope_id, said_key, fact)
SELECT unit_id, unit.scope_id, ifnull(said_key, 9223372036854775807), vec_int8(code)
FROM staged_vector CROSS JOIN unit ON unit_id = row_id JOIN message USING (message_id)
WHERE kind = 'unit' ORDER BY row_id;

-- name: move_triple_vectors
INSERT INTO triple_vector (unit_id, scope_id, triple)
SELECT unit_id, scope_id, vec_int8(code)
FROM staged_vector CROSS JOIN unit ON unit_id = row_id WHERE kind = 'triple' ORDER BY row_id;

-- name: move_label_vectors
INSERT INTO label_vector (label_id, axis, name)
SELECT label_id, axis, vec_int8(code)
FROM staged_vector CROSS JOIN label ON label_id = row_id WHERE kind = 'label' ORDER BY row_id;

-- name: check_staged_vectors
SELECT kind || ' ' || row_id || ' has a staged vector, but is not there' FROM staged_vector
WHERE CASE kind WHEN 'message' THEN row_id NOT IN (SELECT message_id FROM message)
                WHEN 'unit' THEN row_id NOT IN (SELECT unit_id FROM unit)
                WHEN 'triple' THEN row_id NOT IN (SELECT unit_id FROM unit WHERE subject IS NOT NULL)
                ELSE row_id NOT IN (SELECT label_id FROM label) END
UNION ALL
SELECT 'unit ' || row_id || ' and its triple are not staged together'
FROM staged_vector AS own JOIN unit ON unit_id = row_id
WHERE kind IN ('unit', 'triple') AND subject IS NOT NULL
  AND EXISTS (SELECT 1 FROM meta WHERE key = 'staged_encoder_sha256')
  AND NOT EXISTS (SELECT 1 FROM staged_vector AS other
                  WHERE other.row_id = own.row_id AND other.kind = iif(own.kind = 'unit', 'triple', 'unit'));

-- name: staged_vector_codes
SELECT kind, row_id, code FROM staged_vector;
