//! The effects of a new revision of a ClusterExtension, as one value made before anything is written.
//!
//! A [`Plan`] is put together from facts that the caller found out: the resolution, the objects as they are and as
//! they would be, permissions, CRD findings, and verdicts of a dry-run. A part that could not be found
//! out is [`Section::Unknown`]. Its [`digest`](Plan::digest) covers the inputs, our own fields before and after, and the
//! findings on CRDs, never what the server fills in; the data of Secrets appear as hashes only. The same facts in another
//! order are the same plan. [`record`] is the form in which a plan is kept in the cluster.
//!
//! Pure: nothing here asks a cluster.

mod content;
mod difference;
mod dry_run;
mod fields;
mod images;
pub mod limits;
mod objects;
mod permissions;
mod plan;
mod record;
mod section;
mod text;
mod writes;

pub use content::{ContentDifference, content_difference};
pub use difference::FieldChange;
pub use dry_run::{Deferred, DryRun, DryRunVerdict, Refused};
pub use images::{ImageChange, image_changes};
pub use objects::{Change, Found, ObjectFacts, ObjectPlan, object_plan};
pub use permissions::{Permissions, ServiceAccountPermissions, operator_permissions};
pub use plan::{CrdFinding, Inputs, InstalledBundle, NamedObject, Plan, Resolution};
pub use record::{differences_to, record};
pub use section::Section;
pub use text::permission_line;
pub use writes::{Writes, deletion_plan, write_plan};
