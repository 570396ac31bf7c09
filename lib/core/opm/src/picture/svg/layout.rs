//! Columns and rows of a channel's bundles.

use crate::picture::{ChannelGraph, Edge, EdgeKind};

/// Where each node stands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Column and row of each node.
    pub(super) places: Vec<(usize, usize)>,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Layout {
    pub(super) fn of(channel: &ChannelGraph) -> Self {
        let columns = columns(channel);
        let count = columns.iter().max().map_or(0, |last| last + 1);
        let main = main_line(channel, &columns);
        let mut filled = vec![0; count];
        let mut places = vec![(0, 0); columns.len()];
        for (node, &column) in columns.iter().enumerate().filter(|(node, _)| main[*node]) {
            places[node] = (column, 0);
            filled[column] = 1;
        }
        for (node, &column) in columns.iter().enumerate().filter(|(node, _)| !main[*node]) {
            // Beside the main line rows begin below it, so that the line stays visible.
            let row = if filled[column] == 0 { 1 } else { filled[column] };
            places[node] = (column, row);
            filled[column] = row + 1;
        }
        Self { places, columns: count, rows: filled.into_iter().max().unwrap_or(0) }
    }
}

/// Edges that order the columns: those of skip ranges do not, as they lead from nearly everywhere.
fn ordering(channel: &ChannelGraph) -> impl Iterator<Item = &Edge> {
    channel.edges.iter().filter(|edge| edge.kind != EdgeKind::SkipRange && edge.from != edge.to)
}

/// The column of each node: one more than that of the last it replaces or skips. Nodes on cycles, and behind
/// them, come after all others, each in a column of its own.
fn columns(channel: &ChannelGraph) -> Vec<usize> {
    let count = channel.nodes.len();
    let mut waiting = vec![0_usize; count];
    let mut newer: Vec<Vec<usize>> = vec![Vec::new(); count];
    for edge in ordering(channel) {
        waiting[edge.to] += 1;
        newer[edge.from].push(edge.to);
    }
    let mut columns = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| waiting[*node] == 0).collect();
    let mut placed = vec![false; count];
    while let Some(node) = ready.pop() {
        placed[node] = true;
        for &next in &newer[node] {
            columns[next] = columns[next].max(columns[node] + 1);
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.push(next);
            }
        }
    }
    let after = (0..count).filter(|node| placed[*node]).map(|node| columns[node] + 1).max().unwrap_or(0);
    for (column, node) in (after..).zip((0..count).rev().filter(|node| !placed[*node])) {
        columns[node] = column;
    }
    columns
}

/// The nodes from the newest back along `replaces`, one in a column.
fn main_line(channel: &ChannelGraph, columns: &[usize]) -> Vec<bool> {
    let mut main = vec![false; columns.len()];
    let mut current = (0..columns.len()).rev().max_by_key(|node| columns[*node]);
    while let Some(node) = current {
        main[node] = true;
        let replaced = channel.edges.iter().find(|edge| edge.to == node && edge.kind == EdgeKind::Replaces);
        current =
            replaced.map(|edge| edge.from).filter(|from| !main[*from] && columns[*from] < columns[node]);
    }
    main
}
