//! Writes of the leader to a ClusterCatalog: status by PUT, label and finalizer by JSON patch.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use olm_api::{
    names::{CATALOG_NAME_LABEL, CATALOGD_FIELD_MANAGER, DELETE_SERVER_CACHE_FINALIZER},
    v1::{ClusterCatalog, ClusterCatalogStatus},
};
use olm_runtime::{bounded, if_exists};
use serde_json::{Value, json};

use super::{Reconciler, has_finalizer};
use crate::CatalogdError;

impl Reconciler {
    /// Puts our finalizer and the name label on the catalog, if they are not there.
    pub(super) async fn claim(&self, catalog: &ClusterCatalog) -> Result<ClusterCatalog, CatalogdError> {
        let mut operations = Vec::new();
        if !has_finalizer(catalog) {
            let mut finalizers = catalog.finalizers().to_vec();
            finalizers.push(DELETE_SERVER_CACHE_FINALIZER.to_owned());
            operations.push(json!({ "op": "add", "path": "/metadata/finalizers", "value": finalizers }));
        }
        let name = catalog.name_any();
        // Label values are shorter than names may be; such a catalog is selected by other labels.
        if name.len() <= LABEL_BYTES_MAX && catalog.labels().get(CATALOG_NAME_LABEL) != Some(&name) {
            let mut labels = catalog.labels().clone();
            labels.insert(CATALOG_NAME_LABEL.to_owned(), name);
            operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": labels }));
        }
        if operations.is_empty() {
            return Ok(catalog.clone());
        }
        self.patch(catalog, operations, "adding finalizer and label").await
    }

    /// Takes our finalizer off the catalog.
    pub(super) async fn release(&self, catalog: &ClusterCatalog) -> Result<(), CatalogdError> {
        let Some(at) = catalog.finalizers().iter().position(|name| name == DELETE_SERVER_CACHE_FINALIZER)
        else {
            return Ok(());
        };
        let path = format!("/metadata/finalizers/{at}");
        let operations = vec![
            json!({ "op": "test", "path": path, "value": DELETE_SERVER_CACHE_FINALIZER }),
            json!({ "op": "remove", "path": path }),
        ];
        self.writes.forget(&catalog.uid().unwrap_or_default());
        let name = catalog.name_any();
        let removal = Patch::Json::<()>(operations_of(operations)?);
        let removed = if_exists(self.api.patch(&name, &patch_params(), &removal)).await;
        removed.map(drop).map_err(|source| CatalogdError::Api { action: "removing finalizer", source })
    }

    async fn patch(
        &self,
        catalog: &ClusterCatalog,
        mut operations: Vec<Value>,
        action: &'static str,
    ) -> Result<ClusterCatalog, CatalogdError> {
        // Lists and maps are written whole, so they must be the ones that were read.
        operations.insert(
            0,
            json!({ "op": "test", "path": "/metadata/resourceVersion", "value": catalog.resource_version() }),
        );
        let patch = Patch::Json::<()>(operations_of(operations)?);
        let written = bounded(self.api.patch(&catalog.name_any(), &patch_params(), &patch))
            .await
            .map_err(|source| CatalogdError::Api { action, source })?;
        self.writes.wrote(&written, self.clock.now());
        Ok(written)
    }

    /// Writes the status of the object as it was read; returns the object after the write.
    pub(super) async fn write_status(
        &self,
        catalog: &ClusterCatalog,
        status: ClusterCatalogStatus,
    ) -> Result<ClusterCatalog, CatalogdError> {
        let mut object = catalog.clone();
        object.status = Some(status);
        object.metadata.managed_fields = None;
        bounded(self.api.replace_status(&catalog.name_any(), &post_params(), &object))
            .await
            .map_err(|source| CatalogdError::Api { action: "writing status", source })
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(CATALOGD_FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(CATALOGD_FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Longest value of a label.
const LABEL_BYTES_MAX: usize = 63;

fn operations_of(operations: Vec<Value>) -> Result<json_patch::Patch, CatalogdError> {
    serde_json::from_value(Value::Array(operations)).map_err(|error| CatalogdError::Api {
        action: "making a patch",
        source: kube::Error::SerdeError(error),
    })
}
