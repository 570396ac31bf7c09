//! What is made of catalogs: the index with its queries, and the outline that validation stands on.

use olm_fbc::{Index, MetaReader, PackageContent, Query};
use olm_opm::{Outline, validate};

use super::kind;

/// The documents of a catalog, indexed, queried, cut down for resolving, and validated.
pub(super) fn catalog(input: &[u8]) -> String {
    let mut reader = MetaReader::new(input);
    let (mut index, mut outline) = (Index::default(), Outline::new(|_| Ok(())));
    let (mut records, mut seen) = (Vec::new(), Vec::new());
    let mut outlined = Ok(());
    loop {
        let meta = match reader.next_meta() {
            Ok(Some(meta)) => meta,
            Ok(None) => break,
            Err(error) => {
                seen.push(kind(&error));
                break;
            }
        };
        index.push_line(&meta.envelope, meta.line.len() + 1).expect("fewer documents than the limit");
        let before = records.len();
        if meta.write_record(&mut records) {
            let length = records.len() - before;
            index.push_record(meta.envelope.subject(), length).expect("fewer records than the limit");
        }
        if outlined.is_ok() {
            outlined = outline.push(&meta);
        }
    }
    let again = Index::from_bytes(&index.to_bytes()).expect("what was written is read");
    assert_eq!(again, index);
    let packages: Vec<String> = index.packages().take(50).map(str::to_owned).collect();
    for package in &packages {
        for schema in ["", "olm.bundle"] {
            let found = index.find(&Query { schema: Some(schema), package: Some(package), name: None });
            assert!(found.iter().all(|range| range.start < range.end && range.end <= index.bytes()));
        }
        let mut content = PackageContent::default();
        for range in index.records(package) {
            let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
            let lines = records.get(start.expect("small")..end.expect("small")).expect("within the records");
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                if let Err(error) = content.push_json(line) {
                    seen.push(kind(&error));
                }
            }
        }
    }
    seen.push(match outlined {
        Ok(()) => validate(&outline).message().map_or_else(|| "valid".to_owned(), |message| kind(&message)),
        Err(error) => kind(&error),
    });
    seen.truncate(3);
    format!("{} packages {}", packages.len().min(3), seen.join("; "))
}

/// Bytes that may be an index.
pub(super) fn index(input: &[u8]) -> String {
    match Index::from_bytes(input) {
        Ok(index) => format!("{} documents", index.documents().min(3)),
        Err(error) => kind(&error),
    }
}
