-- name: next_unit_number
SELECT ifnull(max(number) + 1, 0) FROM unit WHERE session_id = :session_id AND window_no = :window_no;

-- name: insert_unit
INSERT INTO unit (scope_id, session_id, window_no, number, message_id, first_position, last_position,
                  fact_text, subject, predicate, object)
VALUES (:scope_id, :session_id, :window_no, :number, :message_id, :first_position, :last_position,
        :fact_text, :subject, :predicate, :object)
RETURNING unit_id;

-- name: insert_interval
INSERT INTO unit_interval (unit_id, start_day, end_day, granularity) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: find_label
SELECT label_id FROM label WHERE axis = ? AND name = ?;

-- name: known_labels
SELECT axis, name FROM label WHERE (axis, name) IN (
  SELECT wanted.value ->> 0, wanted.value ->> 1 FROM json_each(:labels) AS wanted);

-- name: insert_label
INSERT INTO label (axis, name, folded) VALUES (?, ?, ?) RETURNING label_id;

-- name: insert_unit_label
INSERT INTO unit_label (label_id, unit_id) VALUES (?, ?) ON CONFLICT DO NOTHING;
