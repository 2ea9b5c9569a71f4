-- name: put_message_terms
INSERT OR REPLACE INTO message_terms (rowid, own, question, prompt, context, after)
VALUES (:message_id, :own, :question, :prompt, :context, :after);

-- name: put_unit_terms
INSERT INTO unit_terms (rowid, fact, labels) VALUES (:unit_id, :fact, :labels);

-- name: put_message_vector
INSERT INTO message_vector (message_id, scope_id, said_key, own)
VALUES (:message_id, :scope_id, :said_key, vec_int8(:own));

-- name: put_unit_vector
INSERT INTO unit_vector (unit_id, scope_id, said_key, fact) VALUES (:unit_id, :scope_id, :said_key, vec_int8(:fact));

-- name: put_label_vector
INSERT INTO label_vector (label_id, axis, name) VALUES (:label_id, :axis, vec_int8(:name));
