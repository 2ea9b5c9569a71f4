-- name: find_scope
SELECT scope_id FROM scope WHERE user IS :user AND agent IS :agent AND run IS :run;

-- name: insert_scope
INSERT INTO scope (user, agent, run) VALUES (:user, :agent, :run) RETURNING scope_id;

-- name: find_session
SELECT session_id FROM session WHERE scope_id = :scope_id AND source = :source AND name = :name;

-- name: insert_session
INSERT INTO session (scope_id, source, name) VALUES (:scope_id, :source, :name) RETURNING session_id;

-- name: session_length
SELECT ifnull(max(position) + 1, 0) FROM message WHERE session_id = ?;

-- name: session_speakers
SELECT speaker FROM message WHERE session_id = ? AND position < 64 GROUP BY speaker ORDER BY min(position);

-- name: session_tail
SELECT message_id, position, external_id, speaker, role, content, image_caption, location,
       said_text, said_day, said_utc_us, said_offset_min, said_serial
FROM message WHERE session_id = :session_id AND position >= :position ORDER BY position;

-- name: messages_by_external_id
SELECT message.message_id, position, external_id, speaker, role, content, image_caption, location,
       said_text, said_day, said_utc_us, said_offset_min, said_serial
FROM message JOIN json_each(:ids) AS wanted ON external_id = wanted.value
WHERE session_id = :session_id;

-- name: neighbours
-- The messages from :before places before to :after places after some, each with the one it stands around, said in a
-- span of time.
SELECT near.value, session.name, message.message_id, message.position, message.external_id, message.speaker,
       message.role, message.content, message.image_caption, message.location, message.said_text, message.said_day,
       message.said_utc_us, message.said_offset_min, message.said_serial
FROM json_each(:messages) AS near JOIN message AS own ON own.message_id = near.value
JOIN message ON message.session_id = own.session_id
            AND message.position BETWEEN own.position - :before AND own.position + :after
JOIN session ON session.session_id = own.session_id
WHERE message.message_id <> own.message_id
  AND ifnull(message.said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
ORDER BY near.key, message.position;

-- name: messages_by_position
SELECT message.message_id, position, external_id, speaker, role, content, image_caption, location,
       said_text, said_day, said_utc_us, said_offset_min, said_serial
FROM message JOIN json_each(:positions) AS wanted ON position = wanted.value
WHERE session_id = :session_id AND external_id IS NULL;

-- name: insert_message
INSERT INTO message (scope_id, session_id, position, external_id, speaker, role, content, image_caption, location,
                     said_text, said_day, said_utc_us, said_offset_min, said_serial)
VALUES (:scope_id, :session_id, :position, :external_id, :speaker, :role, :content, :image_caption, :location,
        :said_text, :said_day, :said_utc_us, :said_offset_min, :said_serial)
RETURNING message_id;

-- name: count_speaker
INSERT INTO speaker (scope_id, name, messages) VALUES (?, ?, ?)
ON CONFLICT (scope_id, name) DO UPDATE SET messages = messages + excluded.messages;

-- name: speakers
SELECT speaker.name, sum(messages)
FROM speaker JOIN scope USING (scope_id)
WHERE {visible_scope}
GROUP BY speaker.name ORDER BY sum(messages) DESC, speaker.name LIMIT :most;

-- name: sessions
SELECT session.name, session.source,
       (SELECT count(*) FROM message WHERE message.session_id = session.session_id),
       (SELECT said_text FROM message WHERE message.session_id = session.session_id AND said_text IS NOT NULL
        ORDER BY position LIMIT 1),
       (SELECT said_text FROM message WHERE message.session_id = session.session_id AND said_text IS NOT NULL
        ORDER BY position DESC LIMIT 1),
       scope.user, scope.agent, scope.run
FROM session JOIN scope USING (scope_id)
WHERE {visible_scope}
ORDER BY session_id;

-- name: sessions_named
SELECT session_id FROM session JOIN scope USING (scope_id)
WHERE session.name = :name AND session.source = :source
  AND {visible_scope}
ORDER BY session_id;
