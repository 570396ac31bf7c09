//! Type declarations of Go, as far as Kubernetes' API types use them.

use std::collections::BTreeMap;

/// A declared type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Declaration {
    Struct(Vec<Field>),
    /// A type by another name, as Go writes it.
    Alias(String),
    /// A struct with a line that is not understood.
    Unreadable(String),
}

/// A field of a struct.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The type as Go writes it.
    pub(crate) go_type: String,
    /// The name in JSON; `None` if the fields of the type are inlined.
    pub(crate) name: Option<String>,
    /// The options behind the name, as `omitempty`.
    pub(crate) options: Vec<String>,
    /// The markers of its comment, as `optional` for `// +optional`.
    pub(crate) markers: Vec<String>,
}

/// The declarations of a file by name.
pub(crate) fn declarations(source: &str) -> BTreeMap<String, Declaration> {
    let mut declarations = BTreeMap::new();
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some((name, definition)) = line.strip_prefix("type ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let declaration = match definition.trim() {
            "struct {" => fields(&mut lines),
            "struct {}" | "struct{}" => Declaration::Struct(Vec::new()),
            alias => Declaration::Alias(alias.to_owned()),
        };
        declarations.insert(name.to_owned(), declaration);
    }
    declarations
}

/// The fields up to the end of a struct.
fn fields<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Declaration {
    let (mut fields, mut markers, mut unreadable) = (Vec::new(), Vec::new(), None);
    for line in lines.take_while(|line| *line != "}") {
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(comment.trim().strip_prefix('+').map(str::to_owned));
        } else if !line.is_empty() {
            match field(line, std::mem::take(&mut markers)) {
                Some(field) => fields.push(field),
                None => unreadable = unreadable.or(Some(line.to_owned())),
            }
        }
    }
    unreadable.map_or(Declaration::Struct(fields), Declaration::Unreadable)
}

fn field(line: &str, markers: Vec<String>) -> Option<Field> {
    let (declaration, rest) = line.split_once('`')?;
    let (tags, _) = rest.split_once('`')?;
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let (go_type, is_embedded) = match words.as_slice() {
        [go_type] => (*go_type, true),
        [_, go_type] => (*go_type, false),
        _ => return None,
    };
    let json = tags.split_once("json:\"")?.1.split('"').next()?;
    let mut parts = json.split(',').map(str::to_owned);
    let name = parts.next().filter(|name| !name.is_empty());
    if name.is_none() && !is_embedded {
        return None;
    }
    Some(Field { go_type: go_type.to_owned(), name, options: parts.collect(), markers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read() {
        let read = declarations(
            "type Name string\n\n// A volume.\ntype Volume struct {\n\t// Its name.\n\t// +required\n\tName string `json:\"name,omitempty\" protobuf:\"x\"`\n\n\tSource `json:\",inline\"`\n}\ntype Odd struct {\n\tA, B int\n}\ntype Empty struct{}\n",
        );
        let field = |go_type: &str, name: Option<&str>, option: &str, markers: &[&str]| Field {
            go_type: go_type.to_owned(),
            name: name.map(str::to_owned),
            options: vec![option.to_owned()],
            markers: markers.iter().map(|marker| (*marker).to_owned()).collect(),
        };
        let volume = vec![
            field("string", Some("name"), "omitempty", &["required"]),
            field("Source", None, "inline", &[]),
        ];
        assert_eq!(read["Name"], Declaration::Alias("string".to_owned()));
        assert_eq!(read["Volume"], Declaration::Struct(volume));
        assert_eq!(read["Odd"], Declaration::Unreadable("A, B int".to_owned()));
        assert_eq!(read["Empty"], Declaration::Struct(Vec::new()));
    }
}
