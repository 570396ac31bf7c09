//! Graphviz text.

use std::fmt::{self, Write as _};

use olm_text::is_visible;

use super::{ChannelGraph, EdgeKind, UpgradeGraph};

/// The graphs as one directed graph, with a box for each package and channel.
pub fn dot(graph: &UpgradeGraph) -> String {
    let mut out = String::from("digraph upgrades {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    // Writing to a String cannot fail.
    let _ = write_packages(&mut out, graph);
    out.push_str("}\n");
    out
}

fn write_packages(out: &mut String, graph: &UpgradeGraph) -> fmt::Result {
    for (index, package) in graph.packages.iter().enumerate() {
        writeln!(out, "  subgraph cluster_{index} {{\n    label={};", quoted(&package.name))?;
        if package.deprecated {
            writeln!(out, "    bgcolor=\"#989695\";")?;
        }
        for (channel_index, channel) in package.channels.iter().enumerate() {
            writeln!(
                out,
                "    subgraph cluster_{index}_{channel_index} {{\n      label={};",
                quoted(&channel.name)
            )?;
            if channel.deprecated {
                writeln!(out, "      bgcolor=\"#DCD0FF\";")?;
            }
            write_channel(out, channel, &format!("{}/{}/", package.name, channel.name))?;
            writeln!(out, "    }}")?;
        }
        writeln!(out, "  }}")?;
    }
    Ok(())
}

fn write_channel(out: &mut String, channel: &ChannelGraph, prefix: &str) -> fmt::Result {
    let id = |name: &str| quoted(&format!("{prefix}{name}"));
    for node in &channel.nodes {
        let mut attributes = format!("label={}", quoted(&node.name));
        if node.absent {
            attributes.push_str(", style=\"rounded,dashed\"");
        } else if node.deprecated {
            attributes.push_str(", style=\"rounded,filled\", fillcolor=\"#E8960F\"");
        }
        if node.skipped {
            attributes.push_str(", color=\"#FF0000\", penwidth=3");
        }
        writeln!(out, "      {} [{attributes}];", id(&node.name))?;
    }
    for edge in &channel.edges {
        let (from, to) = (&channel.nodes[edge.from], &channel.nodes[edge.to]);
        let attributes = match edge.kind {
            EdgeKind::Replaces => "label=\"replaces\"".to_owned(),
            EdgeKind::Skips => "label=\"skips\", style=dashed".to_owned(),
            EdgeKind::SkipRange => {
                format!("label={}, style=dotted", quoted(&format!("skipRange {}", to.skip_range)))
            }
        };
        writeln!(out, "      {} -> {} [{attributes}];", id(&from.name), id(&to.name))?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            character if !is_visible(character) => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}
