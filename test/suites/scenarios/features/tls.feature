@serial
Feature: TLS profiles

  Scenario: The least version is kept to
    Given catalogd runs with the custom TLS profile "version=TLSv1.3"
    Then the metrics of catalogd can be had over "TLSv1.3"
    And the metrics of catalogd cannot be had over "TLSv1.2"

  Scenario: The cipher suites are kept to
    Given catalogd runs with the custom TLS profile "version=TLSv1.2 ciphers=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    Then the metrics of catalogd can be had over "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    And the metrics of catalogd cannot be had over "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"

  Scenario: The curves are kept to
    Given catalogd runs with the custom TLS profile "version=TLSv1.2 curves=prime256v1"
    Then the metrics of catalogd can be had over "TLSv1.2 secp256r1"
    And the metrics of catalogd cannot be had over "TLSv1.2 X25519"

  Scenario: A curve goes by both of its names
    Given catalogd runs with the custom TLS profile "version=TLSv1.2 curves=secp256r1"
    Then the metrics of catalogd can be had over "TLSv1.2 secp256r1"
    And the metrics of catalogd cannot be had over "TLSv1.2 secp384r1"

  Scenario: Groups that resist quantum computers can be all there is
    Given catalogd runs with the custom TLS profile "version=TLSv1.3 curves=X25519MLKEM768,SecP256r1MLKEM768"
    Then the metrics of catalogd can be had over "TLSv1.3 X25519MLKEM768"
    And the metrics of catalogd can be had over "TLSv1.3 secp256r1MLKEM768"
    And the metrics of catalogd cannot be had over "TLSv1.3 X25519"
