//! What almost every test uses: `use olm_test::prelude::*`.

pub use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

pub use anyhow::{Context as _, Result, bail, ensure};
pub use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
pub use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
pub use olm_api::{
    ConditionType::{self, Available, Installed, Progressing, Ready, Serving, Stalled, Succeeded},
    names::{
        BUNDLE_VERSION, OWNER_KIND_LABEL, OWNER_NAME_LABEL, SERVICE_ACCOUNT_NAME_ANNOTATION,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
    },
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet, LifecycleState},
};
pub use serde_json::{Value, json};

pub use crate::{
    bundle::{Bundle, lighthouse, small},
    cluster::{Cluster, Options, unique_name},
    data::skip_on_given_cluster,
    extension::{ACCOUNT, Extension, condition_text},
    images::Images,
    instance::{Catalogd, Operator},
    kubectl::{self, kubectl},
    operator::SYSTEM_NAMESPACE,
    permissions::{create_account, grant, rules_for},
    process::{Process, StateDirectory, cargo_program},
    registry::Registry,
    requests::{Requests as _, resource},
    scenario::Scenario,
    wait::{self, eventually, eventually_within},
    world::{COLLECTED, DEADLINE, Site, World},
};
