@vap
Feature: Policies of administrators over extensions

  Background:
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    And a team whose members may write extensions and use the account
    And an admission policy that lets the team install only this package, only here

  Scenario: What the policy allows is installed
    When a member of the team creates the extension
    Then the extension is rolled out
    And the extension is available

  Scenario: Another package is refused
    Then a member of the team is refused, because "the team may not install this package", an extension with
      """
      source: {catalog: {packageName: another}}
      """

  Scenario: Another namespace is refused
    Then a member of the team is refused, because "the team may not install there", an extension with
      """
      namespace: default
      """

  Scenario: A package of any catalog is refused
    Then a member of the team is refused, because "the team has to name a catalog", an extension with
      """
      source: {catalog: {selector: null}}
      """

  Scenario: Leaving the catalog's way is refused
    Then a member of the team is refused, because "the team has to follow the catalog's upgrades", an extension with
      """
      source: {catalog: {upgradeConstraintPolicy: SelfCertified}}
      """

  Scenario: Doing without the checks of definitions is refused
    Then a member of the team is refused, because "the team has to keep the checks of CRDs", an extension with
      """
      install: {preflight: {crdUpgradeSafety: {enforcement: None}}}
      """
