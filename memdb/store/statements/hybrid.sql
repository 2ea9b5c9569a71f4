-- name: hybrid
-- One statement from a question to its evidence (QGMem section III-B1; papers: equations of A6.3 and A6.4).
--
-- Every KNN stands in a MATERIALIZED common table of its own: the query flattener would push ORDER BY and joins into
-- vec0, which refuses them. A channel that is switched off, or has nothing to look for, costs nothing: its condition
-- on bindings alone is tested before its table is opened.
WITH
-- The scopes this question may see: named parts must agree; a scope that names none sees only what nobody named.
visible AS MATERIALIZED (
  SELECT scope_id FROM scope
  WHERE {visible_scope}
),

-- Messages: BM25 over what the message states, what it asks besides, the question it replies to, its neighbourhood.
{message_lexical},
-- Messages: cosine of the question and the message, the question it replies to included.
{message_dense},

-- Units: BM25 over the claim and its labels.
{unit_lexical},
-- Units: cosine of the question and the claim.
{unit_dense},

-- Units: event attributes. Constraints on entities and locations, each with its number, axis, folded text.
constraint_name AS MATERIALIZED (
  SELECT key AS number, value ->> 0 AS axis, value ->> 1 AS folded FROM json_each(:names) WHERE :unit_attribute
),
constraint_time AS MATERIALIZED (
  SELECT key AS number, value ->> 0 AS kind, value ->> 1 AS start_day, value ->> 2 AS end_day
  FROM json_each(:times) WHERE :unit_attribute
),
-- best(c): 1 for an equal label, else the cosine of the nearest ones down to the threshold.
{near_label},
label_hit AS (
  SELECT number, axis, label_id, score FROM near_label
  UNION ALL
  SELECT constraint_name.number, constraint_name.axis, label.label_id, 1.0
  FROM constraint_name JOIN label ON label.axis = constraint_name.axis AND label.folded = constraint_name.folded
),
-- TimeMatch: overlap coefficients in days; a unit that does not know its time falls back on the day it was said.
time_hit AS (
  SELECT c.number, unit_id,
         (min(c.end_day, t.end_day) - max(c.start_day, t.start_day) + 1.0)
         / (1 + min(c.end_day - c.start_day, t.end_day - t.start_day)) AS score
  FROM constraint_time AS c JOIN unit_interval AS t ON t.start_day <= c.end_day AND t.end_day >= c.start_day
  WHERE kind = 'fact'
  UNION ALL
  SELECT c.number, unit_id, CASE kind WHEN 'fact' THEN :time_fallback ELSE 1.0 END
  FROM constraint_time AS c
  JOIN message ON message.said_day BETWEEN c.start_day AND c.end_day
  JOIN unit ON unit.message_id = message.message_id
  WHERE kind = 'utterance' OR NOT EXISTS (SELECT 1 FROM unit_interval WHERE unit_interval.unit_id = unit.unit_id)
),
-- S_ELT: the mean over the axes the question constrains, of each the mean over its constraints. The n best units; ties
-- go by the dense score.
{unit_attribute},

-- Units: reciprocal rank fusion, S_RRF = sum of 1 / (kappa + rank).
unit_placed AS (
  SELECT 'unit_lexical' AS channel, unit_id, message_id, score,
         row_number() OVER (ORDER BY score DESC, unit_id) AS place FROM unit_lexical
  UNION ALL
  SELECT 'unit_dense', unit_id, unit.message_id, score, row_number() OVER (ORDER BY score DESC, unit_id)
  FROM unit_dense JOIN unit USING (unit_id)
  UNION ALL
  SELECT 'unit_attribute', unit_id, unit.message_id, score, row_number() OVER (ORDER BY score DESC, distance, unit_id)
  FROM unit_attribute JOIN unit USING (unit_id)
),
unit_fused AS (
  SELECT unit_id, message_id, sum(1.0 / (:kappa + place)) AS score,
         json_group_object(channel, json_array(place, score)) AS channels
  FROM unit_placed GROUP BY unit_id
),

-- Fusion over both: each list's scores as shares of its best one, weighted. A unit counts for the message it rests
-- on, and of a message's units the best one counts.
listed AS (
  SELECT 'message_lexical' AS list, message_id, score, NULL AS units, NULL AS channels FROM message_lexical
  UNION ALL
  SELECT 'message_dense', message_id, score, NULL, NULL FROM message_dense
  UNION ALL
  SELECT 'unit', message_id, max(score), json_group_object(unit_id, score), channels FROM unit_fused GROUP BY message_id
  UNION ALL
  SELECT 'hops', message_id, max(chain.value ->> 1), NULL, NULL
  FROM json_each(:chains) AS chain JOIN unit ON unit.unit_id = chain.value ->> 0 GROUP BY message_id
),
share AS (
  SELECT list, message_id, units, score, row_number() OVER (PARTITION BY list ORDER BY score DESC, message_id) AS place,
         max(score, 0) / max(max(score) OVER (PARTITION BY list), 1e-9) AS share,
         iif(list = 'unit', channels, NULL) AS channels
  FROM listed
),
fused AS MATERIALIZED (
  SELECT message_id, sum(:weights ->> list * share) AS total, max(units) AS units,
         json_patch(ifnull(max(channels), '{}'),
                    json_group_object(list, json_array(place, score)) FILTER (WHERE list <> 'unit')) AS channels
  FROM share GROUP BY message_id
),
scored AS MATERIALIZED (
  SELECT message_id, units, channels, total + iif(speaker IS :speaker, :speaker_bonus, 0) AS score
  FROM fused JOIN message USING (message_id)
),
-- Claims that a later one of their trace replaced, with the message of the one that holds (A4.5): the last said by
-- :said_until of those whose slot is replaced at all. What the question itself names is what it asks for.
traced AS MATERIALIZED (
  SELECT scored.message_id, unit.object, trace_unit.trace_id, scored.score AS own
  FROM scored CROSS JOIN message USING (message_id) CROSS JOIN unit USING (message_id) LEFT JOIN trace_unit
       ON :newest_first AND trace_unit.unit_id = unit.unit_id
      AND is_replaced(unit.predicate, message.said_serial IS NOT NULL)
      AND NOT instr(' ' || :asked || ' ', ' ' || same_value(unit.object) || ' ')
),
holding AS MATERIALIZED (
  SELECT trace_id, object, message_id, max(number) FROM (
    SELECT trace_unit.trace_id, trace_unit.number, unit.object, unit.message_id
    FROM trace_unit JOIN unit USING (unit_id) JOIN message USING (message_id)
    WHERE trace_id IN (SELECT trace_id FROM traced) AND is_replaced(unit.predicate, message.said_serial IS NOT NULL)
      AND ifnull(message.said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
  ) GROUP BY trace_id
),
replaced AS MATERIALIZED (
  SELECT traced.message_id, holding.message_id AS by_id, own,
         count(*) OVER of_message = count(current.score) OVER of_message AS outdated
  FROM traced LEFT JOIN holding ON holding.trace_id = traced.trace_id
                               AND same_value(holding.object) <> same_value(traced.object)
       LEFT JOIN scored AS current ON current.message_id = holding.message_id
  WINDOW of_message AS (PARTITION BY traced.message_id)
),
-- A message of which nothing holds any more comes directly after the one that says what does, which is lifted to it:
-- nothing is pushed down among messages that are about something else.
moved AS (
  SELECT iif(lifts.value, by_id, message_id) AS message_id, max(iif(lifts.value, own, NULL)) AS lift,
         max(NOT lifts.value) AS late
  FROM replaced CROSS JOIN json_each('[0, 1]') AS lifts WHERE outdated GROUP BY 1
),
ranked AS MATERIALIZED (
  SELECT message_id, units, channels, max(score, ifnull(lift, score)) AS score, ifnull(late, 0) AS late
  FROM scored LEFT JOIN moved USING (message_id)
  ORDER BY 4 DESC, 5, message_id LIMIT :k
)
SELECT score, ranked.channels, session.name AS session,
       message.message_id, message.position, message.external_id, message.speaker, message.role, message.content,
       message.image_caption, message.location, message.said_text,
       iif(:facts, (SELECT json_group_array(json_object(
          'id', session.name || ':w' || window_no || ':' || number, 'fact_text', fact_text,
          'triple', iif(subject IS NULL, NULL, json_array(subject, predicate, object)),
          'first', first_position, 'last', last_position,
          'said_at', message.said_text,
          'trace_id', (SELECT trace_id FROM trace_unit WHERE trace_unit.unit_id = unit.unit_id),
          -- What its trace says last with each predicate, newest first.
          'newest', json((
            SELECT json_group_array(json_array(predicate, object) ORDER BY place DESC) FROM (
              SELECT value.predicate, value.object, max(latest.number) AS place
              FROM trace_unit AS own JOIN trace_unit AS latest USING (trace_id)
              JOIN unit AS value ON value.unit_id = latest.unit_id JOIN message ON message.message_id = value.message_id
              WHERE own.unit_id = unit.unit_id
                AND ifnull(message.said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
              GROUP BY value.predicate))),
          'source_ids', json((
            SELECT json_group_array(ifnull(external_id, session.name || '#' || (position + 1))
                                    ORDER BY message_id <> unit.message_id, position)
            FROM message WHERE message.session_id = unit.session_id
              AND position BETWEEN first_position AND last_position)),
          'fact_time', json((
            SELECT json_group_array(json_array(start_day, end_day, granularity) ORDER BY start_day, end_day)
            FROM unit_interval WHERE unit_interval.unit_id = unit.unit_id)),
          'labels', json((
            SELECT json_group_array(json_array(axis, name) ORDER BY label_id)
            FROM unit_label JOIN label USING (label_id) WHERE unit_label.unit_id = unit.unit_id)))
          ORDER BY ifnull(ranked.units ->> ('$."' || unit_id || '"'), 0) DESC, number)
        FROM unit WHERE unit.message_id = ranked.message_id), '[]') AS facts
FROM ranked JOIN message USING (message_id) JOIN session USING (session_id)
ORDER BY score DESC, late, ranked.message_id
