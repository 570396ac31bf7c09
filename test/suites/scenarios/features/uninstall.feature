Feature: Uninstalling

  Background:
    Given the catalog "main" offers
      | version | contains                                  |
      | 1.0.0   | CRD; Deployment; ConfigMap; NetworkPolicy |
    And the extension is created
    And version "1.0.0" is installed
    And the extension reports Available True because of ProbesSucceeded

  Scenario: With the extension goes everything that it installed
    Then 8 objects of the extension exist at least
    When the extension is deleted
    Then nothing of the extension is left

  Scenario: Everything goes also when the account is no longer there
    Given the ServiceAccount "installer" is removed
    When the extension is deleted
    Then nothing of the extension is left
