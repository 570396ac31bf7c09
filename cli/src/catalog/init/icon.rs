//! The kind of an image, by its first bytes.

/// Media types by the bytes at the head.
const SIGNATURES: [(&[u8], &str); 9] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
];

/// The media type of an image; the error is that of something else.
pub(super) fn media_type(bytes: &[u8]) -> Result<&'static str, &'static str> {
    if let Some((_, media_type)) = SIGNATURES.iter().find(|(head, _)| bytes.starts_with(head)) {
        return Ok(media_type);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Ok("image/webp");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if is_svg(text) => Ok("image/svg+xml"),
        Ok(text) if !text.chars().any(|character| character.is_control() && !character.is_whitespace()) => {
            Err("text/plain; charset=utf-8")
        }
        _ => Err("application/octet-stream"),
    }
}

/// Whether the first element of an XML text is `svg`.
fn is_svg(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let skipped = if let Some(comment) = rest.strip_prefix("<!--") {
            comment.split_once("-->")
        } else if let Some(declaration) = rest.strip_prefix("<?") {
            declaration.split_once("?>")
        } else if rest.starts_with("<!") {
            rest.split_once('>')
        } else {
            let name = rest.strip_prefix("<svg");
            return name.is_some_and(|after| {
                after.starts_with(['>', '/']) || after.starts_with(char::is_whitespace)
            });
        };
        let Some((_, after)) = skipped else { return false };
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n..."[..], Ok("image/png")),
            (b"\xff\xd8\xff\xe0", Ok("image/jpeg")),
            (b"RIFF....WEBPVP8 ", Ok("image/webp")),
            (b"<svg/>", Ok("image/svg+xml")),
            (
                b"<?xml version=\"1.0\"?>\n<!-- a <svg> -->\n<!DOCTYPE svg>\n<svg xmlns=\"x\">",
                Ok("image/svg+xml"),
            ),
            (b"<svgx/>", Err("text/plain; charset=utf-8")),
            (b"<!-- <svg/>", Err("text/plain; charset=utf-8")),
            (b"text", Err("text/plain; charset=utf-8")),
            (b"\x00\x01", Err("application/octet-stream")),
            (b"\xff\xff", Err("application/octet-stream")),
        ] {
            assert_eq!(media_type(bytes), expected, "{bytes:?}");
        }
    }
}
