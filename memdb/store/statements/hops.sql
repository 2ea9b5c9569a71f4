-- name: chain_starts
-- Of the names a question may hold, those of holders from which two facts can be followed: the object of one of their
-- facts is itself a holder. Only what the question may see counts; of a label the newest :scan such facts. Most texts are
-- ASCII, for which lower() is fold().
WITH visible AS MATERIALIZED (
  SELECT scope_id FROM scope
  WHERE {visible_scope}
)
SELECT DISTINCT name.value FROM json_each(:names) AS name
CROSS JOIN label ON axis IN ('subject', 'entity', 'location') AND folded IN (name.value, 'the ' || name.value)
WHERE EXISTS (
  SELECT 1 FROM (
    SELECT DISTINCT iif(octet_length(object) = length(object), lower(object), fold(object)) AS object FROM (
      SELECT subject, object
      FROM unit_label JOIN unit USING (unit_id) JOIN message USING (message_id)
      WHERE unit_label.label_id = label.label_id AND subject IS NOT NULL
        AND unit.scope_id IN (SELECT scope_id FROM visible)
        AND ifnull(said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
      ORDER BY unit_label.unit_id DESC LIMIT :scan)
    WHERE axis = 'subject'
       OR instr(' ' || iif(octet_length(subject) = length(subject), lower(subject), fold(subject)) || ' ',
                ' ' || name.value || ' ')) AS own
  WHERE EXISTS (
    SELECT 1 FROM label AS holder
    WHERE holder.axis IN ('subject', 'entity', 'location')
      AND holder.folded IN (own.object, 'the ' || own.object)
      AND EXISTS (
        SELECT 1 FROM (
          SELECT subject
          FROM unit_label JOIN unit USING (unit_id) JOIN message USING (message_id)
          WHERE unit_label.label_id = holder.label_id AND subject IS NOT NULL
            AND unit.scope_id IN (SELECT scope_id FROM visible)
            AND ifnull(said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
          ORDER BY unit_label.unit_id DESC LIMIT :fan) AS next
        WHERE holder.axis = 'subject'
           OR instr(' ' || iif(octet_length(subject) = length(subject), lower(subject), fold(subject)) || ' ',
                    ' ' || holder.folded || ' ')))
);

-- name: hops
-- Chains of facts that hold, from the entities of a question towards its answer: a beam search over the graph whose
-- nodes are folded names and whose edges are units with a triple. Each row of `beam` is one round: the paths kept so
-- far as JSON. A path's `cover` says how well each part of the question is told by some slot on it, so a part counts
-- once; its score is the sum less :hop_cost for each hop.
--
-- Everything is bounded: a label gives its newest :scan units that the question may see, a node :fan edges, a round looks at :edges of them and
-- keeps :beam paths, and there are :most_hops rounds.
WITH RECURSIVE
visible AS MATERIALIZED (
  SELECT scope_id FROM scope
  WHERE {visible_scope}
),
part AS MATERIALIZED (
  SELECT value AS number, vec_slice(vec_int8(:parts), value * :dimension, (value + 1) * :dimension) AS vector
  FROM json_each(:part_numbers)
),
beam (hop, paths) AS (
  SELECT 0, (SELECT json_group_array(json_object('node', start.value, 'nodes', json_array(start.value),
                                                 'units', json('[]'), 'score', 0.0, 'gain', 0.0,
                                                 'cover', json((SELECT json_group_array(0.0) FROM part))))
             FROM json_each(:starts) AS start)
  UNION ALL
  SELECT hop + 1, (
    -- SQLite makes a table again for each place it is named in here, since all depends on `beam`: so each is named once.
    WITH edge AS MATERIALIZED (
      SELECT node, step.value AS unit_id, max(label.axis = 'subject') AS whole
      FROM (SELECT DISTINCT value ->> 'node' AS node FROM json_each(beam.paths))
      CROSS JOIN label ON label.axis IN ('subject', 'entity', 'location') AND label.folded IN (node, 'the ' || node)
      CROSS JOIN json_each((
        SELECT json_group_array(unit_id) FROM (
          SELECT unit_id FROM (
            SELECT unit_label.unit_id, subject
            FROM unit_label JOIN unit USING (unit_id) JOIN message USING (message_id)
            WHERE unit_label.label_id = label.label_id AND subject IS NOT NULL
              AND unit.scope_id IN (SELECT scope_id FROM visible)
              AND ifnull(said_key, 9223372036854775807) BETWEEN :said_from AND :said_until
            ORDER BY unit_label.unit_id DESC LIMIT :scan)
          WHERE label.axis = 'subject' OR instr(' ' || fold(subject) || ' ', ' ' || node || ' ')
          ORDER BY unit_id DESC LIMIT :fan))) AS step
      GROUP BY node, unit_id LIMIT :edges
    ),
    -- Of what is said of one slot with one value the newest, unless its trace says something later.
    told AS MATERIALIZED (
      SELECT edge.*, subject, predicate, fold(object) AS object, is_replaced(predicate, said_serial IS NOT NULL) AS one_value,
             row_number() OVER (PARTITION BY node, fold(subject), fold(predicate)
                                ORDER BY ifnull(said_key, 9223372036854775807) DESC, edge.unit_id DESC) AS place
      FROM edge JOIN unit USING (unit_id) JOIN message USING (message_id)
    ),
    holding AS MATERIALIZED (
      SELECT node, unit_id, object, predicate, iif(whole, NULL, subject) AS subject FROM told
      WHERE NOT one_value OR (place = 1 AND NOT EXISTS (
        SELECT 1 FROM trace_unit AS own JOIN trace_unit AS later ON later.trace_id = own.trace_id
                                                                AND later.number > own.number
        JOIN unit ON unit.unit_id = later.unit_id JOIN message USING (message_id)
        WHERE own.unit_id = told.unit_id AND is_replaced(unit.predicate, message.said_serial IS NOT NULL)
          AND same_value(unit.object) <> same_value(told.object)
          AND ifnull(said_key, 9223372036854775807) BETWEEN :said_from AND :said_until))
    ),
    -- What a slot is called: its predicate, and the rest of a holder that is more than the name reached ("the head of
    -- the government of X").
    called AS MATERIALIZED (
      SELECT node, unit_id, object,
             (SELECT name FROM label_vector WHERE label_vector.label_id = label.label_id) AS vector
      FROM holding
      CROSS JOIN label ON (axis = 'predicate' AND name = predicate) OR (axis = 'subject' AND name = subject)
    ),
    -- How well a slot tells of a part of the question: its cosine, :floor and less being nothing.
    support AS MATERIALIZED (
      SELECT node, unit_id, object, number,
             max(max(0.0, 1 - vec_distance_cosine(vec_int8(part.vector), vec_int8(called.vector)) - :floor))
             / (1 - :floor) AS fit
      FROM called CROSS JOIN part WHERE called.vector IS NOT NULL GROUP BY node, unit_id, number
    ),
    grown AS (
      SELECT path.key AS way, path.value AS so_far, unit_id, object,
             sum(max(0, fit - (path.value ->> ('$.cover[' || number || ']')))) AS gain,
             json_group_array(max(fit, path.value ->> ('$.cover[' || number || ']')) ORDER BY number) AS cover
      FROM support CROSS JOIN json_each(beam.paths) AS path ON path.value ->> 'node' = node
      GROUP BY way, unit_id HAVING max(fit) >= :least_fit
    ),
    best AS (
      SELECT unit_id, object, gain, cover, so_far, (so_far ->> 'score') + gain - :hop_cost AS score FROM grown
      WHERE NOT EXISTS (SELECT 1 FROM json_each(so_far, '$.nodes') WHERE value = object)
      ORDER BY score DESC, unit_id DESC LIMIT :beam
    )
    SELECT json_group_array(json_object(
             'node', object, 'nodes', json_insert(so_far -> '$.nodes', '$[#]', object),
             'units', json_insert(so_far -> '$.units', '$[#]', unit_id),
             'score', score, 'gain', gain, 'cover', json(cover)))
    FROM best
  )
  FROM beam WHERE hop < :most_hops AND json_array_length(paths) > 0
)
SELECT path.value ->> 'score' AS score, path.value -> 'units' AS units
FROM beam CROSS JOIN json_each(beam.paths) AS path
WHERE hop >= :least_hops AND path.value ->> 'gain' >= :least_gain
  AND path.value ->> 'score' >= :least_share * (SELECT count(*) FROM part)
ORDER BY score DESC, hop LIMIT :chains
