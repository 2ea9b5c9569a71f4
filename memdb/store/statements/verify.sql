-- name: count_rows
SELECT (SELECT count(*) FROM scope), (SELECT count(*) FROM session), (SELECT count(*) FROM message),
       (SELECT count(*) FROM window), (SELECT count(*) FROM unit), (SELECT count(*) FROM unit_interval),
       (SELECT count(*) FROM label), (SELECT count(*) FROM trace), (SELECT count(*) FROM segment),
       (SELECT count(*) FROM message_vector), (SELECT count(*) FROM unit_vector), (SELECT count(*) FROM label_vector),
       (SELECT count(*) FROM triple_vector);

-- name: check_message_positions
SELECT session_id || ': positions ' || min(position) || ' to ' || max(position) || ' for ' || count(*) || ' messages'
FROM message GROUP BY session_id HAVING min(position) <> 0 OR max(position) + 1 <> count(*);

-- name: check_message_terms
SELECT message_id || ' is in one of message and message_terms only' FROM (
  SELECT * FROM (SELECT message_id FROM message EXCEPT SELECT rowid FROM message_terms)
  UNION ALL SELECT * FROM (SELECT rowid FROM message_terms EXCEPT SELECT message_id FROM message));

-- name: check_unit_terms
SELECT unit_id || ' is in one of unit and unit_terms only' FROM (
  SELECT * FROM (SELECT unit_id FROM unit EXCEPT SELECT rowid FROM unit_terms)
  UNION ALL SELECT * FROM (SELECT rowid FROM unit_terms EXCEPT SELECT unit_id FROM unit));

-- name: check_message_vectors
SELECT message_id || ' has a vector of another scope or time, or of no message'
FROM message_vector LEFT JOIN message USING (message_id)
WHERE message.message_id IS NULL OR message_vector.scope_id <> message.scope_id
   OR message_vector.said_key <> ifnull(message.said_key, 9223372036854775807);

-- name: check_unit_vectors
SELECT unit_id || ' has a vector of another scope or time, or of no unit'
FROM unit_vector LEFT JOIN unit USING (unit_id) LEFT JOIN message USING (message_id)
WHERE unit.unit_id IS NULL OR unit_vector.scope_id <> unit.scope_id
   OR unit_vector.said_key <> ifnull(message.said_key, 9223372036854775807);

-- name: check_label_vectors
SELECT label_id || ' has a vector of another axis, or of no label'
FROM label_vector LEFT JOIN label USING (label_id) WHERE label.label_id IS NULL OR label_vector.axis <> label.axis;

-- name: check_triple_vectors
SELECT unit_id || ' has a triple vector of another scope, or of no unit with a triple'
FROM triple_vector LEFT JOIN unit USING (unit_id)
WHERE unit.subject IS NULL OR triple_vector.scope_id <> unit.scope_id
UNION ALL
SELECT unit_id || ' has a triple and a vector, but no triple vector'
FROM unit WHERE subject IS NOT NULL AND unit_id IN (SELECT unit_id FROM unit_vector)
            AND unit_id NOT IN (SELECT unit_id FROM triple_vector);

-- name: check_labels_used
SELECT label_id || ' (' || axis || ' ' || name || ') belongs to no unit'
FROM label WHERE NOT EXISTS (SELECT 1 FROM unit_label WHERE unit_label.label_id = label.label_id);

-- name: check_unit_spans
SELECT unit_id || ' rests on positions ' || first_position || ' to ' || last_position || ', its message is '
       || ifnull(message.position, 'missing')
FROM unit LEFT JOIN message USING (message_id)
WHERE message.session_id IS NOT unit.session_id OR message.scope_id IS NOT unit.scope_id
   OR message.position NOT BETWEEN first_position AND last_position;

-- name: check_unit_windows
SELECT unit_id || ' ends outside the new messages of its window'
FROM unit LEFT JOIN window USING (session_id, window_no)
WHERE new_position IS NULL OR last_position < new_position OR last_position >= end_position;

-- name: check_speakers
SELECT name || ' in scope ' || scope_id FROM (
  SELECT * FROM (
    SELECT scope_id, name, messages FROM speaker
    EXCEPT SELECT scope_id, speaker, count(*) FROM message GROUP BY scope_id, speaker)
  UNION ALL SELECT * FROM (
    SELECT scope_id, speaker AS name, count(*) AS messages FROM message GROUP BY scope_id, speaker
    EXCEPT SELECT scope_id, name, messages FROM speaker));

-- name: check_traces
SELECT trace_id || ': ' || count(unit_id) || ' members, ' || ifnull(sum(current), 0) || ' current'
FROM trace LEFT JOIN trace_unit USING (trace_id)
GROUP BY trace_id
HAVING count(unit_id) < 2 OR sum(current) <> 1 OR max(number) + 1 <> count(unit_id)
    OR max(number) <> max(iif(current, number, -1));

-- name: check_trace_members
SELECT trace_id || ': unit ' || unit_id || ' is of another scope, or has no triple'
FROM trace JOIN trace_unit USING (trace_id) JOIN unit USING (unit_id)
WHERE unit.scope_id <> trace.scope_id OR subject IS NULL;

-- name: check_trace_order
SELECT trace_id || ': unit ' || unit_id || ' is number ' || number || ', in memory order it is ' || place FROM (
  SELECT trace_id, unit_id, trace_unit.number,
         row_number() OVER (PARTITION BY trace_id ORDER BY ifnull(message.said_key, 9223372036854775807),
                                                           unit.session_id, first_position, unit_id) - 1 AS place
  FROM trace_unit JOIN unit USING (unit_id) JOIN message USING (message_id))
WHERE number <> place;

-- name: traces
SELECT trace_id, relation_text, trajectory, dirty, made_by FROM trace ORDER BY trace_id;

-- name: check_segments
SELECT segment_id || ' does not follow the segment before it'
FROM (SELECT segment_id, first_position, number, closed,
             lag(last_position, 1, -1) OVER in_session AS before, lag(number, 1, -1) OVER in_session AS earlier,
             lead(1, 1, 0) OVER in_session AS followed
      FROM segment WINDOW in_session AS (PARTITION BY session_id ORDER BY number))
WHERE first_position <> before + 1 OR number <> earlier + 1 OR closed <> followed;

-- name: check_segment_vectors
SELECT segment_id || ' is closed and has no vector, or one beside another scope' FROM segment
WHERE closed
  AND segment_id NOT IN (SELECT waiting.value FROM meta, json_each(meta.value) AS waiting WHERE meta.key = 'segments_waiting')
  AND scope_id IS NOT (SELECT scope_id FROM segment_vector WHERE segment_vector.segment_id = segment.segment_id)
UNION ALL
SELECT segment_id || ' has a vector and is no closed segment, or waits for one' FROM segment_vector
WHERE segment_id NOT IN (SELECT segment_id FROM segment WHERE closed)
   OR segment_id IN (SELECT waiting.value FROM meta, json_each(meta.value) AS waiting WHERE meta.key = 'segments_waiting');

-- name: check_segment_links
SELECT here.segment_id || ' is linked to ' || here.other_id || ', which is not linked to it, or of another scope'
FROM segment_link AS here JOIN segment AS one USING (segment_id) JOIN segment AS other ON other.segment_id = here.other_id
WHERE one.scope_id <> other.scope_id
   OR here.similarity IS NOT (SELECT similarity FROM segment_link AS back
                              WHERE back.segment_id = here.other_id AND back.other_id = here.segment_id);

-- name: session_segments
SELECT segment_id, first_position, last_position,
       (SELECT mean FROM segment_vector WHERE segment_vector.segment_id = segment.segment_id)
FROM segment WHERE session_id = ? ORDER BY number;

-- name: linked_codes
SELECT segment_id, other_id, similarity,
       (SELECT mean FROM segment_vector WHERE segment_vector.segment_id = segment_link.segment_id),
       (SELECT mean FROM segment_vector WHERE segment_vector.segment_id = other_id)
FROM segment_link WHERE segment_id < other_id;

-- name: segment_groups
SELECT segment_id, link_id FROM segment ORDER BY segment_id;

-- name: missing_vectors
SELECT (SELECT count(*) FROM message) - (SELECT count(*) FROM message_vector),
       (SELECT count(*) FROM unit) - (SELECT count(*) FROM unit_vector),
       (SELECT count(*) FROM label) - (SELECT count(*) FROM label_vector);

-- name: session_ids
SELECT session_id, (SELECT count(*) FROM message WHERE message.session_id = session.session_id) FROM session;

-- name: session_windows
SELECT window_no, first_position, end_position, new_position FROM window WHERE session_id = ? ORDER BY window_no;

-- name: open_message_term_instances
CREATE VIRTUAL TABLE IF NOT EXISTS temp.message_terms_instances USING fts5vocab(main, message_terms, instance);

-- name: message_term_instances
SELECT term, doc, col FROM temp.message_terms_instances;

-- name: open_unit_term_instances
CREATE VIRTUAL TABLE IF NOT EXISTS temp.unit_terms_instances USING fts5vocab(main, unit_terms, instance);

-- name: unit_term_instances
SELECT term, doc, col FROM temp.unit_terms_instances;

-- name: all_names
SELECT name, source FROM session UNION ALL SELECT ifnull(user, '') || ifnull(agent, ''), run FROM scope;

-- name: all_labels
SELECT label_id, name, folded FROM label;

-- name: session_units
SELECT last_position, unit_id, fact_text, subject, predicate, object, unit.first_position,
       (SELECT json_group_array(json_array(start_day, end_day, granularity)) FROM unit_interval
        WHERE unit_interval.unit_id = unit.unit_id),
       (SELECT json_group_array(json_array(axis, name)) FROM unit_label JOIN label USING (label_id)
        WHERE unit_label.unit_id = unit.unit_id)
FROM unit JOIN window USING (session_id, window_no)
WHERE session_id = :session_id AND (window.made_by IS :made_by) <> :others
ORDER BY last_position, number;

-- name: windows_made_by
SELECT new_position, end_position FROM window WHERE session_id = :session_id AND made_by = :made_by;

-- name: message_vector_codes
SELECT message_id, own FROM message_vector;

-- name: unit_vector_codes
SELECT unit_id, fact FROM unit_vector;

-- name: triple_vector_codes
SELECT unit_id, triple FROM triple_vector;

-- name: label_vector_codes
SELECT label_id, name FROM label_vector;
