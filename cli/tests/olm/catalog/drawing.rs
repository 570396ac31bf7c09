//! `olm catalog graph`

use super::sample::{fails, olm_in, prints, sample, small, write};

#[test]
fn graphs_are_drawn_in_every_form_and_of_what_is_asked_for() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "c/p.yaml", &sample());
    write(root.path(), "c/q.yaml", &small("q"));
    let graph = |more: &[&str]| prints(root.path(), &[&["catalog", "graph", "c"], more].concat());
    let mermaid = graph(&["--package", "p"]);
    assert!(mermaid.starts_with("graph LR\n  classDef deprecated fill:#E8960F\n"), "{mermaid}");
    assert!(
        mermaid.contains("      p-ch-p.v1.0.0[\"p.v1.0.0\"]-- replace --> p-ch-p.v2.0.0[\"p.v2.0.0\"]\n"),
        "{mermaid}"
    );
    assert!(!mermaid.contains("\"q\""), "{mermaid}");
    assert!(graph(&[]).contains("  subgraph \"q\"\n"));
    let svg = graph(&["-o", "svg"]);
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert_eq!(svg.matches("<title>p.v1.5.0: not in this channel</title>").count(), 1, "{svg}");
    for (more, expected) in [
        (["--package", "nope"], "error: package \"nope\" not found\n"),
        (["--channel", "nope"], "error: channel \"nope\" not found\n"),
    ] {
        let (_, error) = fails(root.path(), 1, &[&["catalog", "graph", "c"], &more[..]].concat());
        assert_eq!(error, expected);
    }
}

#[test]
fn a_skip_range_that_is_none_is_a_warning() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "c/p.yaml", &sample().replace(">=1.0.0 <2.0.0", "~1"));
    let output = olm_in(root.path(), &["catalog", "graph", "c"]);
    assert!(output.status.success());
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(
        error.starts_with("warning: package \"p\", bundle \"p.v2.0.0\": the skip range is ignored: "),
        "{error}"
    );
}
