//! Most that is kept of a catalog that is checked or drawn. Catalogs may come from registries.

/// So many characters of a document are quoted in an error; documents of published catalogs have up to 2 MiB.
pub const QUOTED_DOCUMENT_CHARACTERS_MAX: usize = 200;
/// Most warnings kept of one catalog. A published catalog of 130 MB gives some thousand.
pub const WARNINGS_MAX: usize = 100_000;
/// Most edges of a graph that is drawn; a channel of 200 entries, each with a range over all, has 40,000.
pub const PICTURE_EDGES_MAX: usize = 100_000;
/// Characters that are kept of a text of a bundle for people. Descriptions of published bundles have up to 30,000.
pub const TEXT_CHARACTERS_MAX: usize = 40_000;
/// Most keywords, and most install modes, that are kept of a bundle.
pub const KEYWORDS_MAX: usize = 100;
/// Most APIs in each list that are kept of a bundle.
pub const APIS_MAX: usize = 1_000;
/// Most related images of a bundle that are read; published bundles have up to 200.
pub const IMAGES_MAX: usize = 10_000;
