-- One row a task. The columns before `doc` show what is in the record, so that it can be found; they have no declared type, and
-- hold a text or a number just as the record does.
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    task_id NOT NULL,
    workflow_id,
    campaign_id,
    parent_task_id,
    activity_id,
    status,
    started_at,
    duration_ns,
    -- Numbers different tasks that share an id.
    copy INTEGER NOT NULL,
    -- 1 where the record has something in one of these fields that its column cannot show, such as a list.
    odd INTEGER,
    -- The whole record.
    doc TEXT NOT NULL
);
CREATE UNIQUE INDEX task_by_id ON task (task_id, ifnull(workflow_id, ''), copy);
CREATE INDEX task_by_workflow ON task (workflow_id, started_at);
CREATE INDEX task_by_campaign ON task (campaign_id) WHERE campaign_id IS NOT NULL;
CREATE INDEX task_by_parent ON task (parent_task_id) WHERE parent_task_id IS NOT NULL;
CREATE INDEX task_by_activity ON task (activity_id, status);
CREATE INDEX task_by_status ON task (status, started_at);
CREATE INDEX task_by_start ON task (started_at);
CREATE INDEX task_odd ON task (odd) WHERE odd IS NOT NULL;

-- The values that tasks used and generated, by what they are.
CREATE TABLE value_hash (
    hash TEXT NOT NULL,
    task INTEGER NOT NULL,
    side TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (hash, task, side, name)
) WITHOUT ROWID;

-- One row a workflow, joined of the records of its processes.
CREATE TABLE workflow (
    id INTEGER PRIMARY KEY,
    workflow_id NOT NULL UNIQUE,
    -- As above.
    odd INTEGER,
    doc TEXT NOT NULL
);

-- What each process of a workflow told of it.
CREATE TABLE workflow_process (
    id INTEGER PRIMARY KEY,
    workflow_id NOT NULL,
    doc TEXT NOT NULL
);
CREATE INDEX workflow_process_by_workflow ON workflow_process (workflow_id);

-- Records of other kinds, each once.
CREATE TABLE other (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    doc TEXT NOT NULL
);
