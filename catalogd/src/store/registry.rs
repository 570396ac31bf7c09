//! A generation as the content of OLM Classic's registry API.

use std::sync::Arc;

use olm_classic_core::registry_model::Content;
use olm_fbc::{
    CatalogError, PackageContent, Query, SCHEMA_BUNDLE, SCHEMA_PACKAGE, limits::DOCUMENT_BYTES_MAX,
};

use serde::Deserialize;

use super::Generation;

impl Generation {
    /// The bytes of a range of the lines.
    fn lines_at(&self, start: u64, length: u64) -> Result<Vec<u8>, CatalogError> {
        let failed = |cause: String| CatalogError::Read { catalog: self.catalog.clone(), cause };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > DOCUMENT_BYTES_MAX + 1 {
            return Err(failed(format!("a document has more than {DOCUMENT_BYTES_MAX} bytes")));
        }
        let mut bytes = vec![0; length];
        self.read_lines(&mut bytes, start).map_err(|error| failed(error.to_string()))?;
        Ok(bytes)
    }
}

/// The content that readers of one catalog share.
#[derive(Debug, Clone)]
pub struct RegistryContent(pub Arc<Generation>);

impl Content for RegistryContent {
    fn packages(&self) -> Vec<String> {
        self.0.packages().map(str::to_owned).collect()
    }

    fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        self.0.package(package)
    }

    fn document(&self, package: &str, bundle: Option<&str>) -> Result<Option<Vec<u8>>, CatalogError> {
        let query = match bundle {
            Some(bundle) => Query { schema: Some(SCHEMA_BUNDLE), package: Some(package), name: Some(bundle) },
            None => Query { schema: Some(SCHEMA_PACKAGE), package: None, name: Some(package) },
        };
        // A package that is served has one document of each name, so a range is one line.
        let Some(range) = self.0.find(&query).into_iter().next() else { return Ok(None) };
        self.0.lines_at(range.start, range.end.saturating_sub(range.start)).map(Some)
    }

    fn documents(
        &self,
        schema: &str,
        package: &str,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CatalogError> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(default)]
            package: String,
        }
        for line in self.0.lines(schema) {
            let document = self.0.lines_at(line.start, line.end.saturating_sub(line.start))?;
            let named = serde_json::from_slice(&document);
            if named.is_ok_and(|named: Named| named.package == package) && !each(&document) {
                return Ok(());
            }
        }
        Ok(())
    }
}
