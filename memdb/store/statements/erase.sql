-- name: delete_unit_terms
DELETE FROM unit_terms WHERE rowid = ?;

-- name: delete_unit_vector
DELETE FROM unit_vector WHERE unit_id = ?;

-- name: delete_triple_vector
DELETE FROM triple_vector WHERE unit_id = ?;

-- name: labels_of_units
SELECT DISTINCT label_id FROM unit_label WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: delete_unit_labels
DELETE FROM unit_label WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: delete_unit_intervals
DELETE FROM unit_interval WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: delete_units
DELETE FROM unit WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: unused_labels
SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM unit_label WHERE label_id = value) ORDER BY value;

-- name: delete_label_vector
DELETE FROM label_vector WHERE label_id = ?;

-- name: delete_label
DELETE FROM label WHERE label_id = ?;
