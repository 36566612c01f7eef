"""The pages of the portal, in which customers of the platform manage their own endpoints."""
