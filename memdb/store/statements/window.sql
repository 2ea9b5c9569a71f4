-- name: put_window
-- A window that grows keeps the name of who made its units so far: where that is not :made_by, it waits for its model.
INSERT INTO window (session_id, window_no, first_position, end_position, new_position, state, made_by)
VALUES (:session_id, :window_no, :first_position, :end_position, :new_position, 'rules', :made_by)
ON CONFLICT (session_id, window_no) DO UPDATE
SET end_position = excluded.end_position, attempts = 0, error = NULL,
    state = iif(window.made_by IS excluded.made_by, 'rules', 'pending');

-- name: windows_to_build
-- Windows a maker has work in, in the order of sessions. :full_messages leaves out the open window of a session. A model
-- takes those that rules made or that grew since; :retry takes those that failed, :redo those of another model too.
SELECT window.session_id, window_no, first_position, end_position, new_position, state, made_by, attempts,
       scope_id, session.name
FROM window JOIN session USING (session_id) JOIN scope USING (scope_id)
WHERE iif(:exact, user IS :user AND agent IS :agent AND run IS :run, {visible_scope})
  AND (:session IS NULL OR session.name = :session AND session.source = :source)
  AND (:full_messages IS NULL OR end_position - first_position >= :full_messages)
  AND CASE WHEN :is_model THEN state IN ('pending', 'rules') OR :retry AND state = 'failed' OR :redo AND made_by IS NOT :made_by
           ELSE made_by IS NOT :made_by AND (:redo OR ifnull(made_by, 'rules-') LIKE 'rules-%') END
ORDER BY window.session_id, window_no;

-- name: window_to_build
SELECT session_id, window_no, first_position, end_position, new_position, state, made_by, attempts,
       scope_id, session.name
FROM window JOIN session USING (session_id) WHERE session_id = :session_id AND window_no = :window_no;

-- name: finish_window
UPDATE window SET state = :state, made_by = :made_by, attempts = attempts + 1, error = NULL
WHERE session_id = :session_id AND window_no = :window_no;

-- name: fail_window
UPDATE window SET state = 'failed', attempts = attempts + 1, error = :error
WHERE session_id = :session_id AND window_no = :window_no;

-- name: delete_rejections
DELETE FROM rejection WHERE session_id = ? AND window_no = ?;

-- name: insert_rejection
INSERT INTO rejection (session_id, window_no, stage, reason, detail) VALUES (?, ?, ?, ?, ?);

-- name: window_units
SELECT unit_id FROM unit WHERE session_id = ? AND window_no = ? ORDER BY number;

-- name: session_range
SELECT message_id, position, external_id, speaker, role, content, image_caption, location,
       said_text, said_day, said_utc_us, said_offset_min, said_serial
FROM message WHERE session_id = :session_id AND position >= :position AND position < :end_position ORDER BY position;

-- name: count_failed
SELECT count(*) FROM window JOIN session USING (session_id) JOIN scope USING (scope_id)
WHERE {visible_scope}
  AND (:session IS NULL OR session.name = :session AND session.source = :source) AND state = 'failed';

-- name: failed_windows
SELECT count(*) FROM window WHERE state = 'failed';

-- name: windows
SELECT session.name, window_no, first_position, end_position, new_position, state, made_by, attempts, error,
       (SELECT count(*) FROM unit WHERE unit.session_id = window.session_id AND unit.window_no = window.window_no),
       (SELECT json_group_array(json_array(stage, reason, detail) ORDER BY rejection_id) FROM rejection
        WHERE rejection.session_id = window.session_id AND rejection.window_no = window.window_no)
FROM window JOIN session USING (session_id) JOIN scope USING (scope_id)
WHERE {visible_scope}
  AND (:session IS NULL OR session.name = :session AND session.source = :source)
ORDER BY window.session_id, window_no;
