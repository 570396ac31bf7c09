//! `olm search`: packages by what people know of them.

use std::io::Write;

use clap::Args;
use olm_opm::{Hit, SearchIndex};
use serde::Serialize;

use crate::{
    catalogs::{CatalogArgs, Wanted},
    classic,
    output::{self, Column, Differs, ListArgs},
};

/// The help text below the options.
pub(crate) const HELP: &str =
    "Every word has to be found; the best place decides the order: name, keywords, display name, provider, short
description, description. Without words all packages are listed. A package is shown as the head of its default channel.
Catalogs of OLM Classic are shown as namespace/name (Classic), where the cluster serves PackageManifests.

Exit codes: 0 a package was found, 1 error, 2 none was found.

Examples:
  olm search argocd
  olm search kafka streaming -o wide
  olm search --catalog quay.io/operatorhubio/catalog:latest postgres -o name";

/// Characters of a short description in a table.
const SUMMARY_CHARACTERS_MAX: usize = 60;

/// `olm search`
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words to look for, in any case
    words: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    catalogs: CatalogArgs,
}

/// A package that was found, and where.
#[derive(Debug, Serialize)]
struct Found {
    catalog: String,
    #[serde(flatten)]
    hit: Hit,
}

fn table() -> [Column<Found>; 7] {
    [
        Column::new("PACKAGE", |found: &Found| found.hit.name.clone()),
        Column::new("DISPLAY NAME", |found: &Found| found.hit.display_name.clone()),
        Column::new("VERSION", |found: &Found| found.hit.version.clone()),
        Column::new("CATALOG", |found: &Found| found.catalog.clone()),
        Column::wide("CHANNEL", |found: &Found| found.hit.channel.clone()),
        Column::wide("PROVIDER", |found: &Found| found.hit.provider.clone()),
        Column::new("DESCRIPTION", |found: &Found| shortened(&found.hit.summary)),
    ]
}

impl Search {
    /// The packages that OLM Classic shows on the cluster, unless other catalogs were named.
    async fn classic(&self) -> Vec<(String, SearchIndex)> {
        if !self.catalogs.catalogs.is_empty() {
            return Vec::new();
        }
        let packages = async { classic::packages(&self.catalogs.cluster.client().await?).await };
        packages.await.unwrap_or_else(|error| {
            output::warning(&format!("packages of OLM Classic: {}", output::causes(&error)));
            Vec::new()
        })
    }

    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut found = Vec::new();
        let (mut failed, mut read) = (None, 0);
        let classic = self.classic().await;
        let catalogs = match self.catalogs.open().await {
            // A cluster with nothing but OLM Classic.
            Err(error) if !classic.is_empty() => {
                output::warning(&output::causes(&error));
                Vec::new()
            }
            opened => opened?,
        };
        for (catalog, index) in classic {
            read += 1;
            let hits = index.search(&self.words).into_iter();
            found.extend(hits.map(|hit| (0, Found { catalog: catalog.clone(), hit })));
        }
        for catalog in catalogs {
            let take = |index: &mut SearchIndex, meta: &olm_fbc::Meta<'_>| {
                index.push(meta);
                Ok(())
            };
            match catalog.fold(Wanted::All, SearchIndex::default(), take).await {
                Ok(index) => {
                    read += 1;
                    let hits = index.search(&self.words).into_iter();
                    found.extend(
                        hits.map(|hit| (catalog.priority, Found { catalog: catalog.name.clone(), hit })),
                    );
                }
                Err(error) => {
                    output::warning(&output::causes(&error));
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed.filter(|_| read == 0) {
            return Err(error.context("no catalog can be read"));
        }
        found.sort_by(|(priority, a), (other, b)| {
            (b.hit.score.cmp(&a.hit.score))
                .then_with(|| a.hit.name.cmp(&b.hit.name))
                .then(other.cmp(priority))
        });
        let found: Vec<Found> = found.into_iter().map(|(_, found)| found).collect();
        if found.is_empty() {
            output::warning(&format!("no package found in {}", output::counted(read, "catalog")));
        }
        self.list.write(out, &found, &table(), |found| found.hit.name.clone())?;
        if found.is_empty() { Err(Differs.into()) } else { Ok(()) }
    }
}

fn shortened(text: &str) -> String {
    let text = olm_text::one_line(text);
    if text.chars().count() <= SUMMARY_CHARACTERS_MAX {
        return text.into_owned();
    }
    let cut: String = text.chars().take(SUMMARY_CHARACTERS_MAX).collect();
    format!("{}…", cut.trim_end())
}
