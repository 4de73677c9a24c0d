CREATE VIEW tasks AS
SELECT
    task_id, workflow_id, campaign_id, parent_task_id, activity_id, status, started_at,
    doc ->> '$.ended_at' AS ended_at,
    duration_ns,
    duration_ns / 1e9 AS seconds,
    doc ->> '$.stderr' AS stderr,
    doc -> '$.used' AS used,
    doc -> '$.generated' AS generated,
    doc ->> '$.subtype' AS subtype,
    doc -> '$.tags' AS tags,
    doc ->> '$.hostname' AS hostname,
    doc ->> '$.pid' AS pid,
    doc
FROM task;

CREATE VIEW workflows AS
SELECT
    workflow_id,
    doc ->> '$.name' AS name,
    doc ->> '$.campaign_id' AS campaign_id,
    doc ->> '$.parent_workflow_id' AS parent_workflow_id,
    doc ->> '$.status' AS status,
    doc ->> '$.started_at' AS started_at,
    doc ->> '$.ended_at' AS ended_at,
    doc ->> '$.duration_ns' AS duration_ns,
    doc ->> '$.duration_ns' / 1e9 AS seconds,
    doc ->> '$.user' AS user,
    doc ->> '$.hostname' AS hostname,
    doc ->> '$.totals.tasks' AS tasks,
    doc ->> '$.totals.finished' AS finished,
    doc ->> '$.totals.errors' AS errors,
    doc ->> '$.totals.dropped' AS dropped,
    doc ->> '$.stderr' AS stderr,
    doc
FROM workflow;

-- One row a task that was measured: what the machine and the process were doing when it ended, and the difference where a
-- number only grows.
CREATE VIEW telemetry AS
SELECT
    task_id, workflow_id, activity_id, status, started_at, duration_ns,
    doc ->> '$.telemetry_at_end.cpu.percent_all' AS cpu_percent,
    doc ->> '$.telemetry_at_end.cpu.frequency' AS cpu_frequency_mhz,
    doc ->> '$.telemetry_at_end.process.cpu_percent' AS process_cpu_percent,
    doc ->> '$.telemetry_at_start.process.memory.rss' AS process_rss_at_start,
    doc ->> '$.telemetry_at_end.process.memory.rss' AS process_rss_at_end,
    doc ->> '$.telemetry_at_end.process.num_threads' AS process_threads,
    doc ->> '$.telemetry_at_end.process.num_open_file_descriptors' AS process_descriptors,
    doc ->> '$.telemetry_at_end.memory.virtual.used' AS memory_used,
    doc ->> '$.telemetry_at_end.memory.virtual.available' AS memory_available,
    doc ->> '$.telemetry_at_end.memory.virtual.percent' AS memory_percent,
    doc ->> '$.telemetry_at_end.memory.swap.used' AS swap_used,
    doc ->> '$.telemetry_at_end.disk.disk_usage.percent' AS disk_percent,
    (doc ->> '$.telemetry_at_end.disk.io_sum.read_bytes')
        - (doc ->> '$.telemetry_at_start.disk.io_sum.read_bytes') AS disk_read_bytes,
    (doc ->> '$.telemetry_at_end.disk.io_sum.write_bytes')
        - (doc ->> '$.telemetry_at_start.disk.io_sum.write_bytes') AS disk_written_bytes,
    (doc ->> '$.telemetry_at_end.network.netio_sum.bytes_recv')
        - (doc ->> '$.telemetry_at_start.network.netio_sum.bytes_recv') AS network_received_bytes,
    (doc ->> '$.telemetry_at_end.network.netio_sum.bytes_sent')
        - (doc ->> '$.telemetry_at_start.network.netio_sum.bytes_sent') AS network_sent_bytes,
    doc -> '$.telemetry_at_end.gpu' AS gpu,
    (doc ->> '$.capture.start_ns') + (doc ->> '$.capture.end_ns') AS capture_ns
FROM task
WHERE doc -> '$.telemetry_at_start' IS NOT NULL OR doc -> '$.telemetry_at_end' IS NOT NULL;

-- One row a task that says what it used itself (`own_…`) and with all that it called (`…`).
CREATE VIEW resources AS
SELECT
    task_id, workflow_id, activity_id, status, started_at, duration_ns,
    doc ->> '$.resources.cpu_ns.self' AS own_cpu_ns,
    doc ->> '$.resources.cpu_ns.inclusive' AS cpu_ns,
    doc ->> '$.resources.minor_faults.self' AS own_minor_faults,
    doc ->> '$.resources.minor_faults.inclusive' AS minor_faults,
    doc ->> '$.resources.major_faults.inclusive' AS major_faults,
    doc ->> '$.resources.voluntary_switches.inclusive' AS voluntary_switches,
    doc ->> '$.resources.involuntary_switches.inclusive' AS involuntary_switches,
    doc ->> '$.resources.read_bytes.inclusive' AS read_bytes,
    doc ->> '$.resources.write_bytes.inclusive' AS write_bytes,
    doc ->> '$.resources.rss_bytes.inclusive' AS rss_bytes,
    doc ->> '$.resources.joules.inclusive' AS joules,
    doc -> '$.resources.child' AS child
FROM task
WHERE doc -> '$.resources' IS NOT NULL;

-- One row for each value that one task generated and another used, within a run or across runs.
CREATE VIEW lineage AS
SELECT
    made.hash AS hash,
    maker.task_id AS generated_by,
    maker.activity_id AS generated_by_activity,
    maker.workflow_id AS generated_in,
    made.name AS generated_as,
    user.task_id AS used_by,
    user.activity_id AS used_by_activity,
    user.workflow_id AS used_in,
    taken.name AS used_as
FROM value_hash AS made
JOIN value_hash AS taken ON taken.hash = made.hash AND taken.side = 'used'
JOIN task AS maker ON maker.id = made.task
JOIN task AS user ON user.id = taken.task
WHERE made.side = 'generated' AND taken.task <> made.task;

-- The graph: who called whom, and whose value went to whom.
CREATE VIEW edges AS
SELECT
    parent_task_id AS source, task_id AS target, 'called' AS kind, NULL AS name, workflow_id
FROM task
WHERE parent_task_id IS NOT NULL
UNION ALL
SELECT generated_by, used_by, 'value', used_as, used_in FROM lineage;
