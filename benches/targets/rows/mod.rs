//! The rows of the table, one module each. To add one: write its module and name it here.

mod row01_off;
mod row02_one_record;
mod row03_nested;
mod row04_persisted;
mod row05_capture;
mod row06_peers;
mod row07_measured_task;
mod row08_hand_off;
mod row09_argument;
mod row10_throughput;
mod row11_memory;
mod row12_events;
mod row13_query;
mod row14_growth;
mod row15_gpu;
mod row16_training;
mod row17_tracker;
mod row18_report;
mod row19_whole_program;

use crate::row::Row;

/// All rows, in the order of the table.
pub(crate) const ALL: &[&Row] = &[
    &row01_off::ROW,
    &row02_one_record::ROW,
    &row03_nested::ROW,
    &row04_persisted::ROW,
    &row05_capture::ROW,
    &row06_peers::ROW,
    &row07_measured_task::ROW,
    &row08_hand_off::ROW,
    &row09_argument::ROW,
    &row10_throughput::ROW,
    &row11_memory::ROW,
    &row12_events::ROW,
    &row13_query::ROW,
    &row14_growth::ROW,
    &row15_gpu::ROW,
    &row16_training::ROW,
    &row17_tracker::ROW,
    &row18_report::ROW,
    &row19_whole_program::ROW,
];
