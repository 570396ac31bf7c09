//! Mermaid text, in the form of `opm alpha render-graph`.

use std::fmt::{self, Write as _};

use olm_text::is_visible;

use super::{ChannelGraph, EdgeKind, Node, PackageGraph, UpgradeGraph};

/// The graphs as one Mermaid flow chart.
pub fn mermaid(graph: &UpgradeGraph) -> String {
    let mut out = String::from(
        "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
         classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n",
    );
    for package in &graph.packages {
        // Writing to a String cannot fail.
        let _ = write_package(&mut out, package);
    }
    out
}

fn write_package(out: &mut String, package: &PackageGraph) -> fmt::Result {
    let name = label(&package.name);
    writeln!(out, "  %% package {name}\n  subgraph {name}")?;
    for channel in &package.channels {
        write_channel(out, &package.name, channel)?;
    }
    writeln!(out, "  end")?;
    if package.deprecated {
        writeln!(out, "  style {} fill:#989695", id(&package.name))?;
    }
    for channel in &package.channels {
        let prefix = id(&format!("{}-{}", package.name, channel.name));
        if channel.deprecated {
            writeln!(out, "  style {prefix} fill:#DCD0FF")?;
        }
        for (class, wanted) in
            [("deprecated", (true, false)), ("skipped", (false, true)), ("deprecatedskipped", (true, true))]
        {
            let nodes = channel.nodes.iter().filter(|node| (node.deprecated, node.skipped) == wanted);
            let ids: Vec<String> = nodes.map(|node| format!("{prefix}-{}", id(&node.name))).collect();
            if !ids.is_empty() {
                writeln!(out, "  class {} {class}", ids.join(","))?;
            }
        }
    }
    Ok(())
}

fn write_channel(out: &mut String, package: &str, channel: &ChannelGraph) -> fmt::Result {
    let prefix = id(&format!("{package}-{}", channel.name));
    let name = label(&channel.name);
    writeln!(out, "    %% channel {name}\n    subgraph {prefix}[{name}]")?;
    let node = |node: &Node| format!("{prefix}-{}[{}]", id(&node.name), label(&node.name));
    for (place, entry) in channel.nodes.iter().enumerate().filter(|(_, node)| !node.absent) {
        writeln!(out, "      {}", node(entry))?;
        for edge in channel.edges.iter().filter(|edge| edge.to == place) {
            let from = node(&channel.nodes[edge.from]);
            let kind = match edge.kind {
                EdgeKind::Skips => "skip".to_owned(),
                EdgeKind::Replaces => "replace".to_owned(),
                EdgeKind::SkipRange => label(&format!("skipRange({})", entry.skip_range)),
            };
            writeln!(out, "      {from}-- {kind} --> {}", node(entry))?;
        }
    }
    writeln!(out, "    end")
}

/// A text in double quotes. Mermaid has no escapes but its own entities.
fn label(text: &str) -> String {
    let visible = text.replace('"', "#quot;").replace(|character| !is_visible(character), "\u{fffd}");
    format!("\"{visible}\"")
}

/// A text as identifier; characters that Mermaid could take for syntax are written as their number.
fn id(text: &str) -> String {
    let written = |character: char| match character {
        '.' | '-' | '_' | '/' => character.to_string(),
        character if character.is_alphanumeric() => character.to_string(),
        character => format!("_{:x}_", u32::from(character)),
    };
    text.chars().map(written).collect()
}
