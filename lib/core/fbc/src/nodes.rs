//! How much a document is, before it is read: small values take many times the memory of their text.

/// Values and keys of a JSON text, or a few more: counted by their punctuation, before anything is made of them.
pub fn nodes(json: &[u8]) -> usize {
    let (mut nodes, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else {
            in_string = *byte == b'"';
            nodes += usize::from(matches!(byte, b'{' | b'[' | b',' | b':'));
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::nodes;

    #[test]
    fn punctuation_in_texts_does_not_count() {
        for (json, count) in
            [("1", 0), (r#"{"a":1}"#, 2), ("[1,[2],{}]", 5), (r#"["\"[,\\",1]"#, 2), (r#"["[,{:"#, 1)]
        {
            assert_eq!(nodes(json.as_bytes()), count, "{json}");
        }
    }
}
