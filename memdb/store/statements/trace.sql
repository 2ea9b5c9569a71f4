-- name: put_triple_vector
INSERT INTO triple_vector (unit_id, scope_id, triple) VALUES (:unit_id, :scope_id, vec_int8(:triple));

-- name: trace_neighbours
-- The units that may belong together with one (QGMem section III-D2): the nearest by the whole fact, and the newest of
-- the same holder and slot; each with its trace. The KNN stands in a table of its own, as in hybrid.sql.
WITH {near_triple},
same_slot AS MATERIALIZED (
  SELECT slot.unit_id
  FROM label JOIN unit_label AS slot USING (label_id) JOIN unit USING (unit_id)
  WHERE label.axis = 'predicate' AND label.folded = :slot AND unit.scope_id = :scope_id AND slot.unit_id <= :until
    AND EXISTS (SELECT 1 FROM label AS holder JOIN unit_label USING (label_id)
                WHERE holder.axis = 'subject' AND holder.folded = :holder AND unit_label.unit_id = slot.unit_id)
  ORDER BY slot.unit_id DESC LIMIT :k + 1
)
SELECT unit_id, trace_id
FROM (SELECT unit_id FROM near UNION SELECT unit_id FROM same_slot) LEFT JOIN trace_unit USING (unit_id)
WHERE unit_id <> :unit_id AND unit_id <= :until;

-- name: trace_members
-- Units by number, and all members of traces, with what traces are made by.
WITH wanted AS MATERIALIZED (
  SELECT value AS unit_id FROM json_each(:units)
  UNION SELECT unit_id FROM trace_unit WHERE trace_id IN (SELECT value FROM json_each(:traces))
)
SELECT unit.unit_id, trace_id, ifnull(trace_unit.number, 0), ifnull(current, 0), unit.session_id, unit.first_position,
       ifnull(message.said_key, 9223372036854775807), message.said_text, fact_text, subject, predicate, object,
       (SELECT triple FROM triple_vector WHERE triple_vector.unit_id = unit.unit_id),
       (SELECT name FROM label_vector WHERE label_id =
          (SELECT label_id FROM label WHERE axis = 'subject' AND label.name = unit.subject)),
       (SELECT name FROM label_vector WHERE label_id =
          (SELECT label_id FROM label WHERE axis = 'predicate' AND label.name = unit.predicate))
FROM wanted CROSS JOIN unit USING (unit_id) JOIN message USING (message_id) LEFT JOIN trace_unit USING (unit_id)
ORDER BY trace_id, trace_unit.number, unit.unit_id;

-- name: trace_claims
-- The units of a scope that may be in a trace, those with a triple vector, by what was said and when. vec0 keeps the ids
-- of its rows in a table of its own, which is quicker to ask than vec0.
SELECT unit_id, subject, predicate
FROM session CROSS JOIN unit USING (session_id) CROSS JOIN message USING (message_id)
WHERE session.scope_id = ? AND EXISTS (SELECT 1 FROM triple_vector_rowids WHERE triple_vector_rowids.rowid = unit_id)
ORDER BY ifnull(said_key, 9223372036854775807), fold(subject), fold(predicate), object, fact_text, unit.session_id,
         first_position, unit_id;

-- name: triple_codes
-- The vectors of the triples of units, by their ids in order.
SELECT triple FROM json_each(?) AS wanted CROSS JOIN triple_vector ON unit_id = wanted.value ORDER BY wanted.key;

-- name: side_codes
-- The vectors of labels of one axis by their names in order, NULL where there is none.
SELECT (SELECT name FROM label_vector WHERE label_vector.label_id = label.label_id)
FROM json_each(:names) AS wanted LEFT JOIN label ON label.axis = :axis AND label.name = wanted.value
ORDER BY wanted.key;

-- name: traced_until
SELECT (SELECT value FROM meta WHERE key = 'traced_unit_id'), (SELECT ifnull(max(unit_id), 0) FROM unit);

-- name: set_traced_until
UPDATE meta SET value = ? WHERE key = 'traced_unit_id';

-- name: untraced_units
-- Asked row by row: a list of all that have vectors would be made for each page.
SELECT unit_id, scope_id, subject, predicate, object FROM unit
WHERE unit_id > :after AND subject IS NOT NULL
  AND EXISTS (SELECT 1 FROM triple_vector_rowids WHERE triple_vector_rowids.rowid = unit_id)
ORDER BY unit_id LIMIT :most;

-- name: scope_ids
SELECT scope_id FROM scope;

-- name: insert_trace
INSERT INTO trace (scope_id, relation_text, trajectory, made_by, dirty) VALUES (?, '', '', 'rules', 1) RETURNING trace_id;

-- name: mark_trace
UPDATE trace SET dirty = 1 WHERE trace_id = ?;

-- name: tell_trace
UPDATE trace SET relation_text = :relation_text, trajectory = :trajectory, made_by = :made_by, dirty = 0
WHERE trace_id = :trace_id;

-- name: rename_trace
UPDATE trace SET relation_text = ? WHERE trace_id = ?;

-- name: traces_of_many_names
-- Traces whose members call their relation by different names: which of them it has depends on vectors.
SELECT trace_id FROM trace_unit JOIN unit USING (unit_id)
GROUP BY trace_id HAVING count(DISTINCT subject || ' | ' || predicate) > 1 ORDER BY trace_id;

-- name: traces_to_tell
-- Traces whose trajectory :made_by has not written, nor tried to.
SELECT trace_id FROM trace JOIN scope USING (scope_id)
WHERE made_by NOT IN (:made_by, 'rules/' || :made_by)
  AND {visible_scope}
ORDER BY trace_id;

-- name: insert_trace_unit
INSERT INTO trace_unit (trace_id, number, unit_id, current) VALUES (?, ?, ?, ?);

-- name: delete_trace_units
DELETE FROM trace_unit WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: delete_trace
DELETE FROM trace WHERE trace_id = ?;

-- name: delete_scope_trace_units
DELETE FROM trace_unit WHERE trace_id IN (SELECT trace_id FROM trace WHERE scope_id = ?);

-- name: delete_scope_traces
DELETE FROM trace WHERE scope_id = ?;

-- name: traces_of_units
SELECT DISTINCT trace_id FROM trace_unit WHERE unit_id IN (SELECT value FROM json_each(?));

-- name: find_traces
-- The traces that tell of a holder and a slot, best first. :readings are [holder, slot], folded; a reading without a
-- slot is any slot of the holder. An equal reading is 1; else :holders and :slots are the readings' vectors.
WITH visible AS MATERIALIZED (
  SELECT scope_id FROM scope
  WHERE {visible_scope}
),
reading AS MATERIALIZED (
  SELECT key AS number, value ->> 0 AS holder, value ->> 1 AS slot FROM json_each(:readings)
),
{near_reading},
hit AS MATERIALIZED (
  SELECT number, axis, label_id, max(score) AS score FROM (
    SELECT * FROM near_reading
    UNION ALL SELECT number, 'subject', label_id, 1.0 FROM reading JOIN label ON axis = 'subject' AND folded = holder
    UNION ALL SELECT number, 'predicate', label_id, 1.0 FROM reading JOIN label ON axis = 'predicate' AND folded = slot
  ) GROUP BY number, axis, label_id
),
-- Members that fit both sides of a reading: the worse of the two counts (equation 2 without the value).
fitting AS (
  SELECT unit_id, min(score) AS score
  FROM (SELECT number, axis, unit_id, max(score) AS score FROM hit JOIN unit_label USING (label_id)
        WHERE unit_id IN (SELECT unit_id FROM trace_unit) GROUP BY number, axis, unit_id)
       JOIN reading USING (number)
  GROUP BY number, unit_id HAVING count(*) = 1 + (max(slot) IS NOT NULL)
)
SELECT trace_id, max(score) AS score
FROM fitting JOIN trace_unit USING (unit_id) JOIN trace USING (trace_id)
WHERE trace.scope_id IN (SELECT scope_id FROM visible)
GROUP BY trace_id ORDER BY score DESC, trace_id LIMIT :most;

-- name: trace_states
-- The members of one trace that were said by :said_until, oldest first, and how many there are in all. Each is told
-- what the trace says last with each predicate, newest first.
WITH said AS MATERIALIZED (
  SELECT trace_unit.number, trace_unit.unit_id
  FROM trace_unit JOIN unit USING (unit_id) JOIN message USING (message_id)
  WHERE trace_id = :trace_id AND ifnull(said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
),
newest AS MATERIALIZED (
  SELECT json_group_array(json_array(predicate, object) ORDER BY number DESC) AS claims
  FROM (SELECT predicate, object, max(said.number) AS number FROM said JOIN unit USING (unit_id) GROUP BY predicate)
)
SELECT trace.relation_text, trace.trajectory,
       (SELECT count(*) FROM trace_unit AS every WHERE every.trace_id = trace.trace_id) AS members,
       json_object(
         'id', session.name || ':w' || unit.window_no || ':' || unit.number, 'fact_text', fact_text,
         'triple', json_array(subject, predicate, object), 'first', first_position, 'last', last_position,
         'said_at', message.said_text, 'trace_id', :trace_id,
         'newest', json((SELECT claims FROM newest)),
         'source_ids', json((
           SELECT json_group_array(ifnull(external_id, session.name || '#' || (position + 1))
                                   ORDER BY message_id <> unit.message_id, position)
           FROM message WHERE message.session_id = unit.session_id
             AND position BETWEEN first_position AND last_position)),
         'fact_time', json((
           SELECT json_group_array(json_array(start_day, end_day, granularity) ORDER BY start_day, end_day)
           FROM unit_interval WHERE unit_interval.unit_id = unit.unit_id)),
         'labels', json((
           SELECT json_group_array(json_array(axis, label.name) ORDER BY label_id)
           FROM unit_label JOIN label USING (label_id) WHERE unit_label.unit_id = unit.unit_id)))
FROM said JOIN unit USING (unit_id) JOIN message USING (message_id)
JOIN session ON session.session_id = unit.session_id JOIN trace ON trace_id = :trace_id
ORDER BY said.number;
