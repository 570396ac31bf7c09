@serial @CatalogdHA
Feature: High availability

  Scenario: Catalogs are served and renewed when the leader dies
    Given two replicas serve catalogs
    And the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    When the leading replica is killed
    Then the catalog "main" answers "metas?schema=olm.bundle" with the names
      | ${ID}.v1.0.0 |
    And another replica leads
    When the image of the catalog "main" is replaced by one that offers
      | version | replaces | contains  |
      | 1.0.0   |          | ConfigMap |
      | 1.1.0   | 1.0.0    | ConfigMap |
    Then the catalog "main" answers "metas?schema=olm.bundle" with the names
      | ${ID}.v1.0.0 |
      | ${ID}.v1.1.0 |
    And the catalog "main" serves
