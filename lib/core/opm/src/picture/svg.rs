//! A picture of the graphs.
//!
//! Each channel is a box of its own. Bundles are in columns, each to the right of all that it replaces or
//! skips; those on the way from the oldest bundle to the head are in the top row, others below. Edges that
//! pass a column bend upwards. Names from catalogs are untrusted: all text is escaped, nothing else of a catalog
//! gets into the picture.

mod layout;

use std::fmt::{self, Write as _};

use layout::Layout;
use olm_text::is_visible;

use super::{ChannelGraph, Edge, EdgeKind, Node, PackageGraph, UpgradeGraph};

/// Pixels of one character of the fixed-width font.
const CHARACTER_PIXELS: usize = 7;
/// Longest name that is written out; the whole name is in the tooltip.
const NAME_CHARACTERS_MAX: usize = 44;
const NODE_HEIGHT: usize = 26;
const COLUMN_GAP: usize = 56;
const ROW_GAP: usize = 16;
const MARGIN: usize = 16;
const TITLE_HEIGHT: usize = 26;
/// Room above the rows for edges that bend upwards.
const BEND_HEIGHT: usize = 40;
/// More edges of skip ranges than this hide everything else; the ranges are in the tooltips all the same.
const SKIP_RANGE_EDGES_MAX: usize = 150;

const STYLE: &str = "text{font-family:monospace;font-size:12px;fill:#202020}.t{font-size:15px;font-weight:bold}\
    .p,.c{fill:#fafafa;stroke:#b0b0b0}.c{fill:#fff}.pd{fill:#989695}.cd{fill:#DCD0FF}.n{fill:#e7f0fb;stroke:#3a6ea5}\
    .a{fill:none;stroke:#909090;stroke-dasharray:4 3}.d{fill:#E8960F}.s{stroke:#FF0000;stroke-width:2.5}\
    path{fill:none;stroke:#404040;stroke-width:1.3}.k{stroke-dasharray:6 3}.r{stroke-dasharray:1.5 3;stroke:#808080}";

/// The graphs as an SVG document.
pub fn svg(graph: &UpgradeGraph) -> String {
    let mut body = String::new();
    let (mut top, mut width) = (MARGIN, 0);
    for package in &graph.packages {
        let size = write_package(&mut body, package, top);
        width = width.max(size.0);
        top += size.1 + MARGIN;
    }
    let width = width.max(460) + 2 * MARGIN;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
         {height}\">\n<style>{STYLE}</style>\n<defs><marker id=\"m\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" \
         markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:#404040\"/>\
         </marker></defs>\n{body}{legend}</svg>",
        height = top + 30,
        legend = legend(top),
    );
    out
}

/// Draws a package at `top`; answers width and height.
fn write_package(out: &mut String, package: &PackageGraph, top: usize) -> (usize, usize) {
    let mut channels = String::new();
    let (mut height, mut width) = (TITLE_HEIGHT, text_width(&package.name) + MARGIN);
    for channel in &package.channels {
        let drawing = Drawing::of(channel, 2 * MARGIN, top + height);
        width = width.max(drawing.width + 2 * MARGIN);
        height += drawing.height + MARGIN;
        let _ = write!(channels, "{drawing}");
    }
    let class = if package.deprecated { "p pd" } else { "p" };
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{MARGIN}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
         <text class=\"t\" x=\"{}\" y=\"{}\">{}</text>\n{channels}",
        2 * MARGIN,
        top + 18,
        Escaped(&package.name),
    );
    (width, height)
}

/// A channel with the place of each of its nodes.
struct Drawing<'g> {
    channel: &'g ChannelGraph,
    layout: Layout,
    node_width: usize,
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl<'g> Drawing<'g> {
    fn of(channel: &'g ChannelGraph, left: usize, top: usize) -> Self {
        let layout = Layout::of(channel);
        let widest = channel.nodes.iter().map(|node| text_width(&short(&node.name))).max().unwrap_or(0);
        let node_width = widest + 14;
        let columns = layout.columns.max(1);
        let inner = columns * node_width + (columns - 1) * COLUMN_GAP;
        let rows = layout.rows.max(1);
        let width = inner.max(text_width(&channel.name)) + 2 * MARGIN;
        let height = TITLE_HEIGHT + BEND_HEIGHT + rows * (NODE_HEIGHT + ROW_GAP) + MARGIN / 2;
        Self { channel, layout, node_width, left, top, width, height }
    }

    /// The upper left corner of a node.
    fn corner(&self, node: usize) -> (usize, usize) {
        let (column, row) = self.layout.places[node];
        let x = self.left + MARGIN + column * (self.node_width + COLUMN_GAP);
        let y = self.top + TITLE_HEIGHT + BEND_HEIGHT + row * (NODE_HEIGHT + ROW_GAP);
        (x, y)
    }

    fn write_node(&self, f: &mut fmt::Formatter<'_>, place: usize, node: &Node) -> fmt::Result {
        let (x, y) = self.corner(place);
        let mut class = String::from(if node.absent { "a" } else { "n" });
        for (holds, name) in [(node.deprecated, " d"), (node.skipped, " s")] {
            if holds {
                class.push_str(name);
            }
        }
        write!(f, "<g><title>{}", Escaped(&node.name))?;
        if node.absent {
            write!(f, ": not in this channel")?;
        }
        if !node.skip_range.is_empty() {
            write!(f, "\nskipRange {}", Escaped(&node.skip_range))?;
        }
        writeln!(
            f,
            "</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{NODE_HEIGHT}\" rx=\"5\"/>\
             <text x=\"{}\" y=\"{}\">{}</text></g>",
            self.node_width,
            x + 7,
            y + 17,
            Escaped(&short(&node.name)),
        )
    }

    fn write_edge(&self, f: &mut fmt::Formatter<'_>, edge: &Edge) -> fmt::Result {
        let class = match edge.kind {
            EdgeKind::Replaces => "e",
            EdgeKind::Skips => "k",
            EdgeKind::SkipRange => "r",
        };
        let ((from_x, from_y), (to_x, to_y)) = (self.corner(edge.from), self.corner(edge.to));
        let (from_column, to_column) = (self.layout.places[edge.from].0, self.layout.places[edge.to].0);
        let middle = NODE_HEIGHT / 2;
        if to_column == from_column + 1 {
            let (x1, y1, y2) = (from_x + self.node_width, from_y + middle, to_y + middle);
            let half = COLUMN_GAP / 2;
            return writeln!(
                f,
                "<path class=\"{class}\" marker-end=\"url(#m)\" d=\"M{x1} {y1}C{} {y1} {} {y2} {to_x} {y2}\"/>",
                x1 + half,
                to_x.saturating_sub(half),
            );
        }
        // Over the columns between, from the top of the one to the top of the other.
        let (x1, x2) = (from_x + self.node_width / 2, to_x + self.node_width / 2);
        let lift = BEND_HEIGHT.min(16 + 4 * to_column.abs_diff(from_column)) + ROW_GAP / 2;
        let (c1, c2) = (from_y.saturating_sub(lift), to_y.saturating_sub(lift));
        writeln!(
            f,
            "<path class=\"{class}\" marker-end=\"url(#m)\" d=\"M{x1} {from_y}C{x1} {c1} {x2} {c2} {x2} {to_y}\"/>"
        )
    }
}

impl fmt::Display for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.channel.deprecated { "c cd" } else { "c" };
        writeln!(
            f,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
             <text class=\"t\" x=\"{}\" y=\"{}\">{}</text>",
            self.left,
            self.top,
            self.width,
            self.height,
            self.left + MARGIN,
            self.top + 18,
            Escaped(&self.channel.name),
        )?;
        let ranges = self.channel.edges.iter().filter(|edge| edge.kind == EdgeKind::SkipRange).count();
        for edge in &self.channel.edges {
            if edge.kind != EdgeKind::SkipRange || ranges <= SKIP_RANGE_EDGES_MAX {
                self.write_edge(f, edge)?;
            }
        }
        for (place, node) in self.channel.nodes.iter().enumerate() {
            self.write_node(f, place, node)?;
        }
        Ok(())
    }
}

/// The meaning of the lines, at this height.
fn legend(top: usize) -> String {
    let y = top + 10;
    let lines = [("e", "replaces"), ("k", "skips"), ("r", "skipRange")];
    let line = |(index, (class, text)): (usize, (&str, &str))| {
        let x = MARGIN + index * 150;
        format!(
            "<path class=\"{class}\" marker-end=\"url(#m)\" d=\"M{x} {y}L{} {y}\"/><text x=\"{}\" y=\"{}\">{text}</text>\n",
            x + 36,
            x + 44,
            y + 4,
        )
    };
    lines.into_iter().enumerate().map(line).collect::<Vec<_>>().concat()
}

fn text_width(text: &str) -> usize {
    text.chars().count() * CHARACTER_PIXELS + CHARACTER_PIXELS
}

/// A name as it fits into a box.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME_CHARACTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARACTERS_MAX - 1).chain(['…']).collect()
}

/// Text that is text to XML, whatever it contains.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                character if !is_visible(character) => f.write_char('\u{fffd}')?,
                character => f.write_char(character)?,
            }
        }
        Ok(())
    }
}
