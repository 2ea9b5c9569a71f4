-- name: last_segment
SELECT segment_id, number, first_position, last_position FROM segment
WHERE session_id = ? ORDER BY number DESC LIMIT 1;

-- name: message_codes_from
-- The vectors of a session's messages from a position on; NULL where a message has none.
SELECT position, (SELECT own FROM message_vector WHERE message_vector.message_id = message.message_id)
FROM message WHERE session_id = :session_id AND position >= :position ORDER BY position;

-- name: insert_segment
-- Its link group is itself until links are made.
INSERT INTO segment (segment_id, scope_id, session_id, number, first_position, last_position, link_id, closed)
SELECT next, :scope_id, :session_id, :number, :first_position, :last_position, next, :closed
FROM (SELECT ifnull(max(segment_id), 0) + 1 AS next FROM segment)
RETURNING segment_id;

-- name: change_segment
UPDATE segment SET last_position = :last_position, closed = :closed WHERE segment_id = :segment_id;

-- name: put_segment_vector
INSERT INTO segment_vector (segment_id, scope_id, mean) VALUES (:segment_id, :scope_id, vec_int8(:mean));

-- name: segments_waiting
SELECT value FROM meta WHERE key = 'segments_waiting';

-- name: set_segments_waiting
INSERT INTO meta (key, value) VALUES ('segments_waiting', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: segment_message_codes
-- The vectors of the messages of segments, in their order.
SELECT segment.scope_id, segment_id,
       (SELECT own FROM message_vector WHERE message_vector.message_id = message.message_id)
FROM json_each(?) AS wanted CROSS JOIN segment ON segment_id = wanted.value
     CROSS JOIN message ON message.session_id = segment.session_id
                       AND position BETWEEN first_position AND last_position
ORDER BY segment_id, position;

-- name: near_segments
{near_segments};

-- name: all_segment_codes
SELECT segment_id, mean FROM segment_vector WHERE scope_id = :scope_id;

-- name: insert_segment_link
INSERT INTO segment_link (segment_id, other_id, similarity) VALUES (?, ?, ?);

-- name: link_ids
SELECT DISTINCT link_id FROM segment WHERE segment_id IN (SELECT value FROM json_each(?));

-- name: join_groups
UPDATE segment SET link_id = :link_id
WHERE link_id IN (SELECT value FROM json_each(:groups)) AND link_id <> :link_id;

-- name: to_segment
-- Sessions of which messages are in no segment.
SELECT session_id, scope_id FROM session
WHERE session_id > :after
  AND EXISTS (SELECT 1 FROM message WHERE message.session_id = session.session_id AND position = 1 + ifnull(
    (SELECT last_position FROM segment WHERE segment.session_id = session.session_id ORDER BY number DESC LIMIT 1), -1))
ORDER BY session_id LIMIT :most;

-- name: delete_segments_waiting
DELETE FROM meta WHERE key = 'segments_waiting';

-- name: delete_segment_links
DELETE FROM segment_link;

-- name: delete_segments
DELETE FROM segment;

-- name: delete_segment_vectors
DELETE FROM segment_vector;

-- name: history
-- From the messages that were found to their segments, on to linked segments, back to messages (DeferMem section 3.2).
--
-- A message in no segment stands for itself. The segments come by the rank of the best message found in them, linked
-- ones after all of these, the most similar first; the first of them that together have no more than :most messages.
WITH
visible AS MATERIALIZED (
  SELECT scope_id FROM scope WHERE {visible_scope}
),
found AS MATERIALIZED (
  SELECT value AS message_id, key AS place, session_id, position,
         (SELECT iif(last_position >= message.position, segment_id, NULL) FROM segment
          WHERE segment.session_id = message.session_id AND first_position <= message.position
          ORDER BY first_position DESC LIMIT 1) AS segment_id
  FROM json_each(:found) CROSS JOIN message ON message.message_id = value
),
direct AS MATERIALIZED (
  SELECT segment_id, min(place) AS place FROM found WHERE segment_id IS NOT NULL GROUP BY segment_id
),
linked AS MATERIALIZED (
  SELECT segment_id, max(similarity) AS similarity FROM (
    SELECT other_id AS segment_id, similarity FROM direct JOIN segment_link USING (segment_id)
    WHERE :links <> 'none'
    UNION ALL
    SELECT other.segment_id, 0.0 FROM (SELECT DISTINCT link_id FROM direct JOIN segment USING (segment_id))
      JOIN segment AS other USING (link_id)
    WHERE :links = 'components'
  )
  WHERE segment_id NOT IN (SELECT segment_id FROM direct) GROUP BY segment_id
),
chosen AS (
  SELECT segment_id, place, 0.0 AS similarity, NULL AS alone FROM direct
  UNION ALL SELECT NULL, place, 0.0, message_id FROM found WHERE segment_id IS NULL
  UNION ALL SELECT segment_id, NULL, similarity, NULL FROM linked
),
numbered AS MATERIALIZED (
  SELECT *, row_number() OVER (ORDER BY place IS NULL, place, similarity DESC, segment_id) AS turn FROM chosen
),
counted AS MATERIALIZED (
  SELECT numbered.*, ifnull(session_id, 0) AS session_id, first_position, last_position,
         sum(ifnull(last_position - first_position + 1, 1)) OVER (ORDER BY turn) AS messages
  FROM numbered LEFT JOIN segment USING (segment_id)
),
held AS (
  SELECT turn, place IS NULL AS linked, alone AS message_id FROM counted
  WHERE messages <= :most AND alone IS NOT NULL
  UNION ALL
  SELECT turn, place IS NULL, message_id
  FROM counted CROSS JOIN message ON message.session_id = counted.session_id
       AND message.position BETWEEN counted.first_position AND counted.last_position
  WHERE messages <= :most AND alone IS NULL
)
SELECT turn, linked, (SELECT max(messages) FROM counted) > :most, found.place, session.name, session.source, ifnull(message.said_key, 9223372036854775807),
       message.session_id, message.position, message.external_id, message.speaker, message.role, message.content,
       message.image_caption, message.location, message.said_text
FROM held CROSS JOIN message ON message.message_id = held.message_id
     JOIN session ON session.session_id = message.session_id
     LEFT JOIN found ON found.message_id = message.message_id
WHERE message.scope_id IN (SELECT scope_id FROM visible)
  AND ifnull(message.said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
ORDER BY turn, message.position;
