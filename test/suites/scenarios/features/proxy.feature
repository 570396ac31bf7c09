@serial @split
Feature: Proxies

  Scenario: A proxy that nobody runs is named as the reason
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    And operator-controller is to use a proxy that nobody runs
    When the extension is created
    Then the extension reports Progressing True because of Retrying, saying
      """
      proxyconnect
      """

  @proxy
  Scenario: Catalogs are read through the proxy
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    And operator-controller is to use a proxy
    When the extension is created
    Then the extension is rolled out
    And the extension is available
    And the proxy was asked for a host whose name contains "catalogd"
