//! Determines which columns are enough to run a pipeline.

use super::read::Table;
use runlore_query::engine::filter::tree::Node;
use runlore_query::engine::path::Path;
use runlore_query::engine::pipeline::accumulator::Accumulator;
use runlore_query::engine::pipeline::{Expression, Stage};

/// Returns the columns that are enough to run the pipeline. `None` if it needs whole documents.
pub(super) fn needed_columns(stages: &[Stage], table: Table) -> Option<Vec<&'static str>> {
    let mut needed = Needed { table, columns: Vec::new() };
    for stage in stages {
        match stage {
            Stage::Match(filter) => needed.node(filter.root())?,
            Stage::Sort(sort) => {
                sort.keys().iter().try_for_each(|(path, _)| needed.path(path))?;
            }
            Stage::Limit(_) | Stage::Skip(_) => {}
            // No field of the documents is needed after these stages.
            Stage::Count(_) => return Some(needed.columns),
            Stage::Group(group) => {
                needed.expression(&group.id)?;
                for (_, accumulator) in &group.fields {
                    needed.accumulator(accumulator)?;
                }
                return Some(needed.columns);
            }
            Stage::Project(_) | Stage::Unwind(_) => return None,
        }
    }
    None
}

struct Needed {
    table: Table,
    columns: Vec<&'static str>,
}

impl Needed {
    fn path(&mut self, path: &Path) -> Option<()> {
        let column = self.table.column(path)?;
        if !self.columns.contains(&column) {
            self.columns.push(column);
        }
        Some(())
    }

    fn node(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
                nodes.iter().try_for_each(|node| self.node(node))
            }
            Node::Field(path, _) => self.path(path),
        }
    }

    fn expression(&mut self, expression: &Expression) -> Option<()> {
        match expression {
            Expression::Field(path) => self.path(path),
            Expression::Root => None,
            Expression::Literal(_) => Some(()),
            Expression::Object(fields) => {
                fields.iter().try_for_each(|(_, inner)| self.expression(inner))
            }
            Expression::Array(items) => items.iter().try_for_each(|inner| self.expression(inner)),
        }
    }

    fn accumulator(&mut self, accumulator: &Accumulator) -> Option<()> {
        match accumulator {
            Accumulator::Count => Some(()),
            Accumulator::Sum(inner)
            | Accumulator::Avg(inner)
            | Accumulator::Min(inner)
            | Accumulator::Max(inner)
            | Accumulator::First(inner)
            | Accumulator::Last(inner)
            | Accumulator::Push(inner)
            | Accumulator::AddToSet(inner)
            | Accumulator::Percentile(inner, _) => self.expression(inner),
        }
    }
}
