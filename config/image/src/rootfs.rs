//! What an image holds and says.

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use olm_image::{Compression, ImageBuilder, ImageProcess, LayerBuilder, PackedImage};

use crate::elf;

/// Where programs look for the certificates of public authorities, unless SSL_CERT_FILE or SSL_CERT_DIR say another
/// place.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Nobody's user. It is a number in the image, so that the kubelet sees without a lookup that it is not root.
const USER: &str = "65532:65532";
const PASSWD: &str = "root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
/// Names are looked up in /etc/hosts, then by DNS: what glibc has within itself. Anything else would be a library.
const NAME_SERVICES: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// A program that gets an image.
#[derive(Debug)]
pub struct Program {
    /// Name of the binary and of the image.
    pub name: &'static str,
    description: &'static str,
}

/// All of them.
pub static PROGRAMS: [Program; 5] = [
    Program {
        name: "operator-controller",
        description: "Installs and upgrades operators from catalogs, and serves the catalogs",
    },
    Program { name: "catalogd", description: "Serves the content of operator catalogs" },
    Program { name: "olm-classic", description: "Serves the APIs of OLM Classic" },
    Program { name: "olm", description: "Works with operator catalogs and bundles, and with clusters" },
    Program { name: "olm-sample-operator", description: "An operator for tests on clusters whose Pods run" },
];

/// The image of a program.
///
/// # Errors
/// The program does not run without libraries.
pub fn image(program: &Program, binary: &[u8]) -> anyhow::Result<PackedImage> {
    let architecture = elf::static_architecture(binary)?;
    let layer = LayerBuilder::new(Compression::Gzip)
        .directory("etc")
        .and_then(|layer| layer.file("etc/group", GROUP))
        .and_then(|layer| layer.file("etc/nsswitch.conf", NAME_SERVICES))
        .and_then(|layer| layer.file("etc/passwd", PASSWD))
        .and_then(|layer| layer.directory("etc/ssl"))
        .and_then(|layer| layer.directory("etc/ssl/certs"))
        .and_then(|layer| layer.file(CERTIFICATES, certificates()))
        .and_then(|layer| layer.program(program.name, binary))
        .and_then(|layer| layer.directory_with_mode("tmp", 0o1777))
        .and_then(LayerBuilder::build)
        .context("packing the layer")?;
    let process = ImageProcess {
        entrypoint: vec![format!("/{}", program.name)],
        user: USER.to_owned(),
        environment: vec!["PATH=/".to_owned()],
    };
    let label = |name: &str| format!("org.opencontainers.image.{name}");
    Ok(ImageBuilder::new()
        .platform("linux", architecture)
        .label(label("title"), program.name)
        .label(label("description"), program.description)
        .label(label("version"), env!("CARGO_PKG_VERSION"))
        .label(label("licenses"), "Apache-2.0")
        .process(process)
        .layer(layer)
        .build())
}

/// Mozilla's authorities, as one PEM file.
pub fn certificates() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in BASE64_STANDARD.encode(certificate).as_bytes().chunks(64) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use olm_image::Reference;
    use rustls_pki_types::{CertificateDer, pem::PemObject};

    use super::*;
    use crate::elf::tests::program;

    #[test]
    fn the_same_program_gives_the_same_archive_and_another_one_another() {
        let name = Reference::parse("localhost/olmv1/olm:1").unwrap();
        let archive = |binary: &[u8]| {
            let mut bytes = Vec::new();
            image(&PROGRAMS[2], binary).unwrap().write_archive(&name, &mut bytes).unwrap();
            bytes
        };
        let binary = program(62, 1);
        assert_eq!(archive(&binary), archive(&binary));
        assert_ne!(archive(&binary), archive(&program(183, 1)));
    }

    #[test]
    fn every_authority_is_in_the_bundle() {
        let bundle = certificates();
        let read: Vec<_> = CertificateDer::pem_slice_iter(bundle.as_bytes()).map(Result::unwrap).collect();
        assert!(read.len() > 100, "{}", read.len());
        assert_eq!(read, webpki_root_certs::TLS_SERVER_ROOT_CERTS);
    }

    #[test]
    fn the_program_runs_as_nobody_with_labels_that_say_what_it_is() {
        let image = image(&PROGRAMS[0], &program(62, 1)).unwrap();
        let parsed = image.blobs().find_map(|(_, blob)| serde_json::from_slice(blob).ok());
        let config: serde_json::Value = parsed.unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/operator-controller"]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.title"], "operator-controller");
        assert_eq!(config["architecture"], "amd64");
        assert_eq!(config.get("created"), None, "a time would make each image another one");
    }

    #[test]
    fn the_dockerfile_makes_an_image_that_says_the_same() {
        let file = include_str!("../Dockerfile");
        let (of_default, image) = (&PROGRAMS[0], image(&PROGRAMS[0], &program(62, 1)).unwrap());
        let parsed = image.blobs().find_map(|(_, blob)| serde_json::from_slice(blob).ok());
        let config: serde_json::Value = parsed.unwrap();
        let labels = config["config"]["Labels"].as_object().unwrap();
        assert_eq!(labels.len(), 4, "{labels:?}");
        for label in labels.keys() {
            assert_eq!(file.matches(&format!("{label}=")).count(), 1, "{label}");
        }
        for default in [
            format!("ARG PROGRAM={}\n", of_default.name),
            format!("ARG DESCRIPTION=\"{}\"\n", of_default.description),
            format!("ARG VERSION={}\n", env!("CARGO_PKG_VERSION")),
            format!("USER {USER}\n"),
            "--authorities /image/etc/ssl/certs/ca-certificates.crt".to_owned(),
        ] {
            assert!(file.contains(&default), "{default:?}");
        }
        for (path, content) in [("passwd", PASSWD), ("group", GROUP), ("nsswitch.conf", NAME_SERVICES)] {
            let line = format!("printf '{}' >/image/etc/{path}", content.replace('\n', "\\n"));
            assert!(file.contains(&line), "{line}");
        }
    }

    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        assert!(image(&PROGRAMS[0], &program(62, 3)).is_err());
    }
}
